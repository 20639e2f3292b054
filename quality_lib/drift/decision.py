"""Changed or not, how bad, and whether anybody is paged: the layers put together. Pure.

Detection anchors, 4.2: exact facts first (L0), then exact scores where they repeat (L1), then evidence
over hours (L2); the severity (L3) names what a change means. Without data the answer is *unknown* and
nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quality_lib.drift import severity as levels
from quality_lib.drift.attribution import suspect
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import breaches
from quality_lib.drift.evidence import Weighed
from quality_lib.drift.layers import Check, DriftReason, Found, Layer, first_that_speaks
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import pair_up
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import Rechecks, SequentialState, alarm_level, recheck_mode
from quality_lib.drift.severity import Quality, Severity
from quality_lib.drift.variants import NO_VARIANTS
from quality_lib.records import Tri


@dataclass(frozen=True)
class DriftDecision:
    """What one check means, and the state to keep for the next."""

    changed: Tri
    severity: Severity
    pages: bool
    """Whether it calls for a person; the same change is told at every check that proves it again."""
    layer: Layer
    """The layer that found a change or suspects one."""
    reasons: tuple[DriftReason, ...]
    suspected: str | None
    """Where the fault probably sits."""
    state: SequentialState
    needs_recheck: bool
    """Whether to check again at once: in another order, at another load or cache state."""
    evidence: Weighed | None = None
    """The numbers of L2; None when it was not asked."""


def decide(
    reading: CheckReading,
    reference: CheckReading,
    calibration: Calibration | None,
    state: SequentialState,
    limits: DriftLimits = DriftLimits(),  # noqa: B008
    *,
    is_recheck: bool = False,
    platform: str = "",
    quality: Quality | None = None,
    frozen: str | None = None,
) -> DriftDecision:
    """Judge one check.

    ``is_recheck``: it follows the check before at once, because that one asked for it. ``platform``
    names engine and host; another one than the calibration's is told and not paged. ``frozen`` is why
    nobody may be paged now (a declared deployment); nothing is remembered then. A check that was
    already counted is not counted again. Without calibration only exact facts (L0) are judged.
    """
    check = Check(
        reading,
        reference,
        calibration,
        state,
        limits,
        is_recheck,
        platform,
        pair_up(reading, reference, calibration.variants if calibration else NO_VARIANTS),
        breaches(reading, reference),
    )
    if reading.check_id == state.last_check_id:
        return _again(check)
    found = first_that_speaks(check)
    after = found.state
    if found.counts:
        after = replace(
            after,
            severity=_next_severity(check, quality),
            last_check_id=reading.check_id,
            last_changed=found.changed.value,
        )
    is_yes = found.changed is Tri.YES
    reasons = found.reasons
    if frozen:
        reasons = (*reasons, DriftReason("frozen", f"nobody is paged: {frozen}"))
    healthy = calibration.healthy if calibration else {}
    return DriftDecision(
        changed=found.changed,
        severity=_severity(check, found, after, quality),
        pages=found.pages and not frozen,
        layer=found.layer,
        reasons=reasons,
        suspected=suspect(check.pairs, healthy, check.broken) if is_yes else None,
        state=state if frozen else after,
        needs_recheck=found.needs_recheck and not frozen,
        evidence=found.evidence,
    )


def _again(check: Check) -> DriftDecision:
    changed = Tri(check.state.last_changed)
    sentence = f"check {check.reading.check_id} was already counted; its answer stands"
    reasons = (DriftReason("already_counted", sentence),)
    return DriftDecision(
        changed, Severity.UNKNOWN, False, "none", reasons, None, check.state, False
    )


def _next_severity(check: Check, quality: Quality | None) -> Mapping[str, tuple[float, ...]]:
    if quality is None:
        return check.state.severity
    multiplies = (
        check.calibration is not None
        and recheck_mode(check.calibration, check.limits) is Rechecks.MULTIPLY
    )
    return levels.next_severity(
        check.state.severity, quality, check.limits.score_tolerance, check.is_recheck, multiplies
    )


def _severity(
    check: Check, found: Found, after: SequentialState, quality: Quality | None
) -> Severity:
    """L3. Garbage needs its repeat as any change does; *same* needs scores that were looked at."""
    if found.changed is Tri.YES and any(
        b.is_garbage and b.code in check.state.pending for b in check.broken
    ):
        return Severity.GARBAGE
    if found.counts and levels.fallen(after.severity, alarm_level(check.limits)):
        return Severity.DEGRADED
    if found.changed is Tri.NO:
        return Severity.SAME
    if found.changed is Tri.YES and quality is not None and quality.scores:
        return Severity.SAME
    return Severity.UNKNOWN
