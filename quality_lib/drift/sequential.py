"""Evidence over hours: the Shiryaev-Roberts sum of bets that began at every hour. Pure.

Shin, Ramdas and Rinaldo, E-detectors (New England J. Statistics in Data Science 2, 2024): with e-values
whose mean given the past is at most 1 in health, ``R = (1 + R) * e`` grows by at most 1 a check on
average, so reaching A takes at least A healthy checks on average. Nothing else is assumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.conformal import at_least
from quality_lib.drift.evalue import rank_e
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.watch import watch_step
from quality_lib.errors import BadInput

SCHEMA = 1
BLOCK_WEIGHT = 0.25
"""Share of an hour's bet that is kept for the whole burst where re-checks may not be multiplied."""


class Rechecks(StrEnum):
    """What an hour's re-checks add to its evidence."""

    MULTIPLY = "multiply"
    """They are nearly independent in health: their e-values are multiplied (optional continuation)."""
    BLOCK = "block"
    """They are not: the whole burst is one value, ranked among whole healthy bursts."""
    WAIT = "wait"
    """They are not, or nobody knows: they add nothing, and the next hours decide."""


@dataclass(frozen=True)
class SequentialState:
    """What a service's decision remembers from check to check."""

    before: float = 0.0
    """The sum at the end of the hour before."""
    hour: float = 0.0
    """The e-value of this hour so far."""
    single: float = 0.0
    """The e-value of this hour's regular check alone."""
    rechecks: int = 0
    burst_sum: float = 0.0
    """Sum of the e-values of this hour's checks."""
    checks: int = 0
    """Regular checks since the start or the last alarm."""
    watch: float = 0.0
    """Level of the watch line."""
    quiet: int = 0
    """Regular checks in a row without evidence."""
    open_since: str | None = None
    """When this layer alarmed; a change stands until enough checks in a row are quiet."""
    suspicious_since: str | None = None
    """Nothing may be learned from checks since then; only ``cleared`` takes it away."""
    pending: tuple[str, ...] = ()
    """Broken facts of the last checks in a row, waiting for their repeat."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Moved scores of the last check, waiting for their repeat."""
    moved_in_row: int = 0
    gross_in: str | None = None
    """The block in which the last check moved grossly."""
    severity: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Evidence that a quality score has fallen, by score and bet."""
    last_check_id: str | None = None
    last_changed: str = "unknown"

    @property
    def level(self) -> float:
        """The sum now; an alarm from ``alarm_level`` on."""
        return (1.0 + self.before) * self.hour

    def to_json(self) -> str:
        """Return the state as one JSON text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SequentialState:
        """Read what ``to_json`` wrote.

        Raises:
            BadInput: the text is something else.
        """
        try:
            return _read(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"the state of the drift decision cannot be read: {error!r}",
                fix="remove it; evidence then starts from nothing",
            ) from error


def _read(data: Any) -> SequentialState:
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']!r}, this release reads {SCHEMA}")
    values = {f.name: data[f.name] for f in fields(SequentialState)}
    for name in ("before", "hour", "single", "burst_sum", "watch"):
        values[name] = float(values[name])
        if not 0 <= values[name] < math.inf:
            raise ValueError(f"{name} is {values[name]}")
    for name in ("rechecks", "checks", "quiet", "moved_in_row"):
        if not isinstance(values[name], int) or values[name] < 0:
            raise ValueError(f"{name} is {values[name]!r}")
    values["pending"] = tuple(map(str, values["pending"]))
    values["moved"] = {str(k): str(v) for k, v in values["moved"].items()}
    values["severity"] = {
        str(k): tuple(float(x) for x in row) for k, row in values["severity"].items()
    }
    return SequentialState(**values)


def alarm_level(limits: DriftLimits) -> float:
    """Return A, the mean number of healthy checks until a false alarm at the least.

    ``checks a year / false alarms a year``, times the endpoints that share the budget (detection
    anchors, 4.3.5); twice that while the gross shortcut has the other half of it (4.3.7).
    """
    share = 0.5 if limits.gross_factor > 0 else 1.0
    return limits.checks_per_year / (limits.false_alarms_per_year * share) * limits.endpoints


def recheck_mode(calibration: Calibration, limits: DriftLimits) -> Rechecks:
    """Return what re-checks may add, by their correlation in health (detection anchors, 4.3.6)."""
    if calibration.multiplies(limits):
        return Rechecks.MULTIPLY
    if 0 < limits.min_bursts <= len(calibration.bursts):
        return Rechecks.BLOCK
    return Rechecks.WAIT


def next_check(
    state: SequentialState, e: float, mode: Rechecks, standardised: float = 0.0
) -> SequentialState:
    """Take a regular check in: ``R = (1 + R) * e``; ``standardised`` is for the watch line."""
    _refuse_no_evidence(e)
    kept = 1.0 - BLOCK_WEIGHT if mode is Rechecks.BLOCK else 1.0
    return replace(
        state,
        before=state.level,
        hour=kept * e,
        single=e,
        rechecks=0,
        burst_sum=e,
        checks=state.checks + 1,
        watch=watch_step(state.watch, standardised),
        quiet=state.quiet + 1 if e < 1 else 0,
    )


def next_recheck(
    state: SequentialState,
    e: float,
    mode: Rechecks,
    limits: DriftLimits,
    bursts: tuple[float, ...] = (),
) -> SequentialState:
    """Take a re-check of the same hour in; more than ``most_rechecks`` add nothing.

    ``bursts`` are the sorted mean e-values of healthy bursts. The burst's bet is paid out when it is
    complete: ``0.75 e_single + 0.25 e_burst`` has a mean of at most 1 whatever starts a burst.
    """
    _refuse_no_evidence(e)
    if state.rechecks >= limits.most_rechecks or not state.checks:
        return state
    after = replace(state, rechecks=state.rechecks + 1, burst_sum=state.burst_sum + e)
    if mode is Rechecks.MULTIPLY:
        return replace(after, hour=state.hour * e)
    if mode is Rechecks.BLOCK and after.rechecks == limits.most_rechecks:
        rank = at_least(after.burst_sum / (after.rechecks + 1), bursts)
        together = rank_e(rank, len(bursts), limits.calibration_risk)
        return replace(after, hour=(1.0 - BLOCK_WEIGHT) * state.single + BLOCK_WEIGHT * together)
    return after


def after_alarm(state: SequentialState, at: str) -> SequentialState:
    """Start the evidence anew; the change stays open and nothing is learned (4.3.5)."""
    return replace(
        state,
        before=0.0,
        hour=0.0,
        single=0.0,
        rechecks=0,
        burst_sum=0.0,
        checks=0,
        watch=0.0,
        quiet=0,
        open_since=state.open_since or at,
        suspicious_since=state.suspicious_since or at,
    )


def cleared() -> SequentialState:
    """Return the state after somebody has looked: a new deployment, an accepted one, or a rollback."""
    return SequentialState()


def _refuse_no_evidence(e: float) -> None:
    if not 0 <= e < math.inf:
        raise ValueError(f"{e} is no e-value")
