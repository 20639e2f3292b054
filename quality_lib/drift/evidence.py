"""Layer 2: one check weighed against health and added to the evidence of the hours before. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import OF_TEXTS, Pair, Statistic, Statistics, statistics
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import (
    Rechecks,
    SequentialState,
    after_alarm,
    alarm_level,
    next_check,
    next_recheck,
    recheck_mode,
)
from quality_lib.drift.watch import watch_limit

GROSS = (Statistic.MEAN_Z, Statistic.REPLAY, Statistic.FORKS)
BELIEVED_FOLDS, BELIEVED_SHARE = 1.0, 0.1
"""A health that never moved is believed to move by an e-fold, or in a tenth of its answers, one day."""
QUIET_CHECKS = 6
"""After an alarm the change stands until so many checks in a row bring no evidence."""


@dataclass(frozen=True)
class Weighed:
    """What layer 2 says of one check."""

    statistics: Statistics
    p_values: Mapping[Statistic, tuple[float, float]]
    """Plain and conservative."""
    e_value: float
    """Of this check alone."""
    level: float
    """Of all checks together, before a reset."""
    alarm_level: float
    is_alarm: bool
    is_watched: bool
    """The watch line is crossed; nobody is paged."""
    needs_recheck: bool
    reasons: tuple[tuple[str, str], ...]
    """Codes and sentences."""
    state: SequentialState


def weigh(
    pairs: Sequence[Pair],
    reading: CheckReading,
    calibration: Calibration,
    state: SequentialState,
    limits: DriftLimits,
    is_recheck: bool,
) -> Weighed | None:
    """Add one check to the evidence (detection anchors, 4.3); None when it holds no statistic."""
    found = statistics(pairs, calibration.healthy)
    e = calibration.evidence(found)
    if e is None:
        return None
    mode = recheck_mode(calibration, limits)
    if is_recheck:
        after = next_recheck(state, e, mode, limits, calibration.bursts)
    else:
        after = next_check(state, e, mode, _standardised(found, calibration))
    is_gross = _is_gross(found, calibration, limits)
    is_repeated = is_gross and _repeats_gross(state, reading, is_recheck)
    after = replace(after, gross_in=_place(reading) if is_gross else None)
    level, limit = after.level, alarm_level(limits)
    is_alarm = level >= limit or is_repeated
    suspects = e >= threshold(calibration, limits)
    if suspects or is_gross:
        after = replace(after, suspicious_since=state.suspicious_since or reading.at)
    is_watched = after.watch >= watch_limit(limits.checks_per_year, limits.watch_per_year)
    reasons = _reasons(e, level, limit, is_repeated, is_watched)
    needs = not is_alarm and _wants_more(after, suspects, is_gross, mode, limits, is_recheck)
    if is_alarm:
        after = after_alarm(after, reading.at)
    elif after.quiet >= QUIET_CHECKS and after.open_since is not None:
        after = replace(after, open_since=None)
    return Weighed(
        statistics=found,
        p_values=calibration.p_values(found),
        e_value=e,
        level=level,
        alarm_level=limit,
        is_alarm=is_alarm,
        is_watched=is_watched,
        needs_recheck=needs,
        reasons=reasons,
        state=after,
    )


def threshold(calibration: Calibration, limits: DriftLimits) -> float:
    """Return the e-value that calls for re-checks: of small calibrations half of what they can bring."""
    return min(limits.suspicion, max(1.0, calibration.largest_e / 2))


def _standardised(found: Statistics, calibration: Calibration) -> float:
    value, known = found.get(Statistic.MEAN_Z), calibration.statistics.get(Statistic.MEAN_Z)
    if value is None or known is None or known.sd == 0:
        return 0.0
    # Heavy tails must not push the watch line over with one check.
    return min(4.0, (value - known.mean) / known.sd)


def _is_gross(found: Statistics, calibration: Calibration, limits: DriftLimits) -> bool:
    """Detection anchors, 4.3.7: the mean lies 3 times beyond the largest of the healthy checks.

    Of the scores, as the note says, and of the decoded answers too, which a faulty sampler alone moves.
    """
    return limits.gross_factor > 0 and any(
        value > gross_level(name, known.ordered[-1], known.sd, limits.gross_factor)
        for name in GROSS
        if (value := found.get(name)) is not None
        and (known := calibration.statistics.get(name)) is not None
    )


def gross_level(name: Statistic, largest: float, sd: float, factor: float) -> float:
    """Return the value of a statistic from which on it is gross; ``largest`` and ``sd`` are those of health.

    Movements are logarithms: three times as far is ``ln 3`` more, and where health itself varies, three of its
    standard deviations. Shares of answers are taken as they are; where three times the healthy share are nearly all
    or more, two thirds of the way to all.
    """
    if name in OF_TEXTS:
        share = factor * max(BELIEVED_SHARE, largest)
        is_share = name is Statistic.REPLAY and largest < 1
        return min(share, 1 - (1 - largest) / factor) if is_share else share
    return max(BELIEVED_FOLDS, largest) + max(math.log(factor), factor * sd)


def _repeats_gross(state: SequentialState, reading: CheckReading, is_recheck: bool) -> bool:
    """Whether the check before was gross too, in another mode or an hour earlier."""
    return state.gross_in is not None and (not is_recheck or state.gross_in != _place(reading))


def _place(reading: CheckReading) -> str:
    block = reading.block
    return f"{block.start}/{block.load}/{block.cache}"


def _wants_more(
    after: SequentialState,
    suspects: bool,
    is_gross: bool,
    mode: Rechecks,
    limits: DriftLimits,
    is_recheck: bool,
) -> bool:
    """Whether another check at once can add something."""
    if after.rechecks >= limits.most_rechecks or not after.checks:
        return False
    if mode is Rechecks.WAIT:
        return is_gross and not is_recheck
    if not is_recheck:
        return suspects or is_gross
    # A bet that has lost what the first check won is not worth more requests.
    return after.hour > 1 if mode is Rechecks.MULTIPLY else True


def _reasons(
    e: float, level: float, limit: float, is_repeated: bool, is_watched: bool
) -> tuple[tuple[str, str], ...]:
    found = []
    if level >= limit:
        found.append((
            "evidence",
            f"the evidence against health is {level:.3g}; a healthy service reaches {limit:.3g} "
            "once in that many checks",
        ))
    if is_repeated:
        found.append((
            "gross",
            "answers moved several times further than ever in health, twice",
        ))
    if not found:
        found.append((
            "no_evidence" if e < 1 else "some_evidence",
            f"this check's evidence is {e:.3g}, all together {level:.3g} of {limit:.3g}",
        ))
    if is_watched:
        found.append((
            "watch",
            "a slight shift may go on since some checks (CUSUM); nobody is paged for it",
        ))
    return tuple(found)
