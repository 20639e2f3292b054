"""The verdict of a golden run whose *changed* stands on a calibration. Pure.

Facts of the interface and of the start-up check count as ever. Stored answers are judged by the drift
decision. Bands of what the calibration does not cover have no stated rate of false alarms, so they
count only when two runs in a row leave them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from quality_lib.drift.severity import Quality
from quality_lib.golden.comparison import BearsOn, Comparison, Statistic
from quality_lib.golden.drift_record import OTHER_PLATFORM, OTHER_TRAFFIC, DriftRecord
from quality_lib.golden.verdict import Floors, GoldenVerdict, Reason, code_of, judge
from quality_lib.records import Outcome, Tri
from quality_lib.records import Verdict as CheckVerdict

_OF_PLATFORM = frozenset({"startup_vllm_version"})
"""Facts that another engine or host changes by itself."""


def judge_with_drift(
    comparison: Comparison,
    floors: Floors,
    startup: Sequence[CheckVerdict],
    record: DriftRecord,
) -> GoldenVerdict:
    """Decide; *degraded* and the summary are those of ``judge``."""
    base = judge(comparison, floors, startup)
    fixed = [*_failed_facts(startup), *_failed_contract(comparison)]
    bands = _band_reasons(comparison, record)
    repeated = [r for r in bands if r.code in record.bands_before]
    waiting = [r for r in bands if r.code not in record.bands_before]
    drift = [Reason(f"drift_{r.code}", r.sentence, BearsOn.CHANGED) for r in record.reasons]
    is_other = OTHER_PLATFORM in record.codes
    called = [r for r in fixed if not (is_other and r.code in _OF_PLATFORM)]
    moved = [*fixed, *repeated, *(drift if record.changed is Tri.YES else ())]
    changed = Tri.YES if moved else Tri.NO
    if not moved and (_is_unknown(record) or waiting or _is_unseen(comparison, floors)):
        changed = Tri.UNKNOWN
    unsure = [
        Reason(
            f"{r.code}_once", f"{r.sentence}; this counts when the next run finds it again", None
        )
        for r in waiting
    ]
    if record.changed is Tri.UNKNOWN:
        unsure += [replace(r, bears_on=None) for r in drift]
    is_bad = base.degraded is Tri.YES
    return replace(
        base,
        changed=changed,
        reasons=(
            *(r for r in base.reasons if r.bears_on is BearsOn.DEGRADED),
            *moved,
            *(r for r in base.reasons if r.bears_on is None),
            *unsure,
        ),
        suspected=(record.suspected or base.suspected) if moved or is_bad else None,
        basis=record.basis,
        needs_calibration=is_other and not called and not repeated,
    )


def left_bands(comparison: Comparison, with_scores: bool) -> tuple[str, ...]:
    """Return the codes of the bands beside the calibration that this run has left.

    ``with_scores``: those of the stored answers too. They count where every bit repeats in health,
    for the cases outside the sentinel set, and while the decision has to be silent.
    """
    return tuple(
        code_of(f)
        for f in comparison.findings
        if f.bears_on is BearsOn.CHANGED
        and f.outcome is Outcome.FAILED
        and f.statistic is not Statistic.CONTRACT
        and (with_scores or f.statistic is not Statistic.LOGPROB_DELTA)
    )


def quality_of(comparison: Comparison) -> Quality:
    """Return the scores that tell worse from only different, beside their healthy means."""
    judged = [
        f
        for f in comparison.findings
        if f.bears_on is BearsOn.DEGRADED and f.value is not None and f.healthy is not None
    ]
    return Quality(
        {code_of(f): f.value for f in judged if f.value is not None},
        {code_of(f): f.healthy for f in judged if f.healthy is not None},
    )


def _band_reasons(comparison: Comparison, record: DriftRecord) -> list[Reason]:
    return [
        Reason(code_of(f), f.sentence, BearsOn.CHANGED)
        for f in comparison.findings
        if code_of(f) in record.bands
    ]


def _failed_facts(startup: Sequence[CheckVerdict]) -> list[Reason]:
    return [
        Reason(v.reason, v.sentence, BearsOn.CHANGED)
        for v in startup
        if v.outcome is Outcome.FAILED
    ]


def _failed_contract(comparison: Comparison) -> list[Reason]:
    """Return broken facts of the interface, and stored answers without comparable scores."""
    broken = [
        c.case_id
        for c in comparison.cases
        if c.logprob_delta is not None and math.isinf(c.logprob_delta)
    ]
    found = [
        Reason(code_of(f), f.sentence, BearsOn.CHANGED)
        for f in comparison.findings
        if f.statistic is Statistic.CONTRACT and f.outcome is Outcome.FAILED
    ]
    if broken:
        sentence = f"{len(broken)} stored answers have no comparable scores, first {broken[0]}"
        found.append(Reason("scores_missing", sentence, BearsOn.CHANGED))
    return found


def _is_unknown(record: DriftRecord) -> bool:
    return record.changed is Tri.UNKNOWN and not OTHER_TRAFFIC & set(record.codes)


def _is_unseen(comparison: Comparison, floors: Floors) -> bool:
    """Whether something that bears on *changed* could not be looked at."""
    seen = tuple(f for f in comparison.findings if f.outcome is not Outcome.FAILED)
    return judge(replace(comparison, findings=seen), floors).changed is Tri.UNKNOWN
