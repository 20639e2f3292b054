"""Drawn checks fed through the product's accumulation of evidence, re-checks and the gross shortcut included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.drift_health import Array, Judge
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.sequential import (
    Rechecks,
    SequentialState,
    after_alarm,
    alarm_level,
    next_check,
    next_recheck,
)
from quality_lib.drift.watch import watch_limit

YEAR = 8760


@dataclass(frozen=True)
class Told:
    """What happened while the checks went by."""

    alarms: list[int]
    """Hours of the alarms."""
    watched: int | None
    """First hour of the watch line, where it comes before the alarm."""


def watch_over(
    judge: Judge,
    checks: Array,
    mode: Rechecks,
    limits: DriftLimits,
    recheck: Callable[[int], Array],
    *,
    stop_after: int | None = None,
) -> Told:
    """Feed checks through the product's accumulation; ``stop_after``: end at the first alarm from then on."""
    e, gross = judge.e_values(checks), judge.is_gross(checks, limits)
    level, line = alarm_level(limits), watch_limit(YEAR, limits.watch_per_year)
    order = judge.orders[0]
    standard = np.minimum(4.0, (checks[:, 0] - order.mean()) / order.std())
    state, alarms, watched, was_gross = SequentialState(), [], None, False
    for hour, value in enumerate(e):
        state = next_check(state, float(value), mode, float(standard[hour]))
        told = bool(gross[hour] and was_gross)
        was_gross = bool(gross[hour])
        if not told and (value >= limits.suspicion or was_gross):
            state, told = _again(judge, state, mode, limits, was_gross, partial(recheck, hour))
        if state.watch >= line and watched is None and hour >= (stop_after or 0):
            watched = hour
        if told or state.level >= level:
            alarms.append(hour)
            state, was_gross = after_alarm(state, "now"), False
            if stop_after is not None and hour >= stop_after:
                break
    return Told(alarms, watched)


def _again(
    judge: Judge,
    state: SequentialState,
    mode: Rechecks,
    limits: DriftLimits,
    is_gross: bool,
    draw: Callable[[], Array],
) -> tuple[SequentialState, bool]:
    """Re-check at once as ``evidence.py`` asks for it; also whether the gross shortcut told."""
    most = 1 if mode is Rechecks.WAIT else limits.most_rechecks
    if mode is Rechecks.WAIT and not is_gross:
        return state, False
    for _ in range(most):
        check = draw()[None, :]
        if is_gross and judge.is_gross(check, limits)[0]:
            return state, True
        is_gross = False
        state = next_recheck(state, float(judge.e_values(check)[0]), mode, limits, judge.bursts)
        if state.level >= alarm_level(limits) or (mode is Rechecks.MULTIPLY and state.hour <= 1):
            break
    return state, False
