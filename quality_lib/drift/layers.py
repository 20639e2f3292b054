"""What each layer says of one check: facts, exact scores, then evidence over hours. Pure.

Detection anchors, 4.2. Every layer answers or passes on; without data the answer is *unknown*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import Breach
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.evidence import Weighed, weigh
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import Pair
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.records import Tri

Layer = Literal["L0", "L1", "L2", "none"]


@dataclass(frozen=True)
class DriftReason:
    """One sentence of the decision with its stable code."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Found:
    """What a layer says."""

    changed: Tri
    layer: Layer
    reasons: tuple[DriftReason, ...]
    state: SequentialState
    pages: bool = False
    needs_recheck: bool = False
    evidence: Weighed | None = None
    counts: bool = True
    """False: the check says nothing, so no score of it is remembered either."""


@dataclass(frozen=True)
class Check:
    """One check with all that is needed to judge it."""

    reading: CheckReading
    reference: CheckReading
    calibration: Calibration | None
    state: SequentialState
    limits: DriftLimits
    is_recheck: bool
    platform: str
    pairs: tuple[Pair, ...]
    broken: tuple[Breach, ...]

    def unknown(self, code: str, sentence: str) -> Found:
        """Say that the check says nothing, and why."""
        reasons = (DriftReason(code, sentence),)
        return Found(Tri.UNKNOWN, "none", reasons, self.state, counts=False)


def first_that_speaks(check: Check) -> Found:
    """Ask the layers in order; the first that has something to say decides."""
    found = _no_data(check) or _contract(check) or _too_few(check)
    if found is not None:
        return found
    # Enough facts are whole: what was pending has not been repeated.
    whole = replace(check, state=replace(check.state, pending=()))
    return _no_ground(whole) or _equality(whole) or _evidence(whole)


def _no_data(check: Check) -> Found | None:
    if check.pairs or check.broken:
        return None
    return check.unknown("no_data", "no probe of the check was answered")


def _contract(check: Check) -> Found | None:
    """L0: a broken fact is a change when the next check breaks it too."""
    if not check.broken:
        return None
    codes = tuple(dict.fromkeys(b.code for b in check.broken))
    is_proven = bool(set(codes) & set(check.state.pending))
    reasons = tuple(
        DriftReason(code, next(b.sentence for b in check.broken if b.code == code))
        for code in codes
    )
    # Facts that take turns are a broken server too, so all of the checks before stay pending.
    waiting = tuple(dict.fromkeys((*check.state.pending, *codes)))
    state = replace(check.state, pending=waiting, suspicious_since=_since(check))
    if is_proven:
        return Found(Tri.YES, "L0", reasons, state, pages=True)
    wait = DriftReason("not_repeated_yet", "one check alone may be damage on the way: repeat it")
    return Found(Tri.UNKNOWN, "L0", (*reasons, wait), state, needs_recheck=True)


def _too_few(check: Check) -> Found | None:
    known = check.calibration.healthy if check.calibration else check.reference.answered()
    answered = sum(p.key in known for p in check.pairs)
    if answered >= check.limits.min_probe_share * len(known):
        return None
    return check.unknown("too_few_probes", f"{answered} of {len(known)} probes were answered")


def _no_ground(check: Check) -> Found | None:
    """Say why the calibration cannot judge this check, if so."""
    known, reading = check.calibration, check.reading
    if known is None:
        return check.unknown("not_calibrated", "there is no calibration; only facts were judged")
    if known.reference_id != check.reference.check_id:
        return check.unknown(
            "other_reference", "the calibration was made with another reference; make it anew"
        )
    if known.platform and check.platform and known.platform != check.platform:
        sentence = (
            f"engine or host is another one ({check.platform}, calibrated {known.platform}): "
            "calibrate anew instead of comparing"
        )
        return Found(Tri.YES, "L0", (DriftReason("other_platform", sentence),), check.state)
    if not known.covers(reading.block):
        return check.unknown(
            "unseen_conditions",
            f"load {reading.block.load} with cache '{reading.block.cache}' was not calibrated",
        )
    return None


def _more_traffic(check: Check, known: Calibration) -> Found | None:
    """Say that movements prove nothing where more requests shared the batches than any calibrated score has met.

    Asked only after something moved: what did not move is as good as ever.
    """
    running = check.reading.running
    if running is None or running <= known.most_under_way:
        return None
    return check.unknown(
        "more_traffic",
        f"answers moved, while the server worked on {running} requests at once, and on {known.most_under_way} at "
        "most when it was calibrated: calibrate under the load that it has",
    )


def _equality(check: Check) -> Found | None:
    """L1: moved scores are a change when the next check moves one to the same value, or goes on moving.

    Of checks that nothing else shared a batch with, as far as that is known.
    """
    known, reading = check.calibration, check.reading
    if known is None or not known.is_exact_for(reading.block.load):
        return None
    bits = compare_bits(reading, check.reference, known.variants)
    if not bits.moved:
        return None
    if busy := _more_traffic(check, known):
        return busy
    in_traffic = not known.is_exact_for(reading.block.load, reading.running)
    if not known.is_deterministic and (in_traffic or not bits.repeats_itself):
        return None  # what larger batches do in health is known: the evidence decides
    if not bits.repeats_itself:
        return check.unknown(
            "unsteady",
            "the server did not repeat itself within the check: other traffic shares its batches",
        )
    in_row = check.state.moved_in_row + 1
    is_proven = bits.same_as(check.state.moved) or in_row >= check.limits.moved_checks
    sentence = (
        f"{len(bits.moved)} of {bits.compared} stored answers score differently; in health every bit "
        "repeats"
    )
    reasons: tuple[DriftReason, ...] = (DriftReason("scores_moved", sentence),)
    state = replace(
        check.state,
        moved=dict(bits.moved),
        moved_in_row=in_row,
        suspicious_since=_since(check),
    )
    if is_proven:
        return Found(Tri.YES, "L1", reasons, state, pages=True)
    wait = DriftReason("not_repeated_yet", "one check alone may have shared a batch: repeat it")
    return Found(Tri.UNKNOWN, "L1", (*reasons, wait), state, needs_recheck=True)


def _evidence(check: Check) -> Found:
    """L2: evidence over hours."""
    if check.calibration is None:
        raise ValueError("there is no calibration")
    state = replace(check.state, moved={}, moved_in_row=0)
    weighed = weigh(
        check.pairs, check.reading, check.calibration, state, check.limits, check.is_recheck
    )
    if weighed is None:
        return check.unknown("no_statistics", "no statistic could be computed")
    if weighed.e_value > 1 and (busy := _more_traffic(check, check.calibration)):
        return busy
    reasons = tuple(DriftReason(code, sentence) for code, sentence in weighed.reasons)
    changed = Tri.NO
    if weighed.is_alarm or weighed.state.open_since is not None:
        changed = Tri.YES
    elif weighed.needs_recheck:
        changed = Tri.UNKNOWN
    return Found(
        changed,
        "none" if changed is Tri.NO else "L2",
        reasons,
        weighed.state,
        pages=weighed.is_alarm,
        needs_recheck=weighed.needs_recheck,
        evidence=weighed,
    )


def _since(check: Check) -> str:
    return check.state.suspicious_since or check.reading.at
