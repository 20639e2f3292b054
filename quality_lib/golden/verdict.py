"""From a comparison to a verdict: changed, degraded, and the four-valued summary. Pure.

*Changed* and *degraded* are two questions. Changed: is this still what the snapshot recorded?
Degraded: are the answers worse? The summary speaks of quality alone, so a harmless upgrade is
``healthy`` and changed; whoever serves a snapshot wants to hear of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from quality_lib.golden.answer import Channel
from quality_lib.golden.comparison import BearsOn, Comparison, Finding, Statistic
from quality_lib.records import Outcome, Summary, Tri
from quality_lib.records import Verdict as CheckVerdict

WORST = 10
UNCALIBRATED = "uncalibrated: bands, no stated false-alarm rate"


@dataclass(frozen=True)
class Floors:
    """Absolute limits beside the bands; the settings' ``Thresholds`` carry the defaults."""

    similarity_alert: float = 0.85
    similarity_failed: float = 0.80
    gross_logprob: float = 1.0
    min_judged_share: float = 0.9
    max_missing_share: float = 0.02


@dataclass(frozen=True)
class Reason:
    """One sentence of the verdict with its stable code."""

    code: str
    sentence: str
    bears_on: BearsOn | None
    """None: it says that something could not be judged."""


@dataclass(frozen=True)
class GoldenVerdict:
    """What a golden run means."""

    summary: Summary
    changed: Tri
    degraded: Tri
    reasons: tuple[Reason, ...]
    worst_cases: tuple[str, ...]
    """Ids, the worst first; only cases that show something."""
    suspected: str | None
    """Where the fault probably sits, read off the channels that moved."""
    basis: str = UNCALIBRATED
    """What the answer to *changed?* stands on."""
    needs_calibration: bool = False
    """Whether another engine or host is all that changed: calibrate anew, and call nobody."""

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong: healthy and unchanged."""
        return self.summary is Summary.HEALTHY and self.changed is Tri.NO

    @property
    def headline(self) -> str:
        """One line for a terminal, a message or a report's title."""
        if self.summary is Summary.INCONCLUSIVE:
            also = ", but changed against the snapshot" if self.changed is Tri.YES else ""
            return f"INCONCLUSIVE: there is not enough data to judge the quality{also}"
        if self.needs_calibration:
            return f"{self.summary.value.upper()}, on another engine or host: calibrate anew"
        changed = {
            Tri.YES: "changed against the snapshot",
            Tri.NO: "unchanged",
            Tri.UNKNOWN: "not known whether changed",
        }[self.changed]
        return f"{self.summary.value.upper()}, {changed}"


def judge(
    comparison: Comparison, floors: Floors, startup: Sequence[CheckVerdict] = ()
) -> GoldenVerdict:
    """Decide. ``startup`` holds the start-up check's verdicts; unobservable facts do not count.

    What stands for itself (missing cases, a critical case, improbable answers) counts however little
    was judged. Means and bands need the data they were made for: without it the answer is *unknown*.
    """
    hard = _hard_failures(comparison, floors)
    blind = _blindness(comparison, floors)
    worse = [] if blind else _degradations(comparison, floors)
    too_low = [] if blind else _below_failed_floor(comparison, floors)
    moved = [
        *(
            Reason(v.reason, v.sentence, BearsOn.CHANGED)
            for v in startup
            if v.outcome is Outcome.FAILED
        ),
        *(
            Reason(code_of(f), f.sentence, BearsOn.CHANGED)
            for f in comparison.findings
            if f.bears_on is BearsOn.CHANGED and f.outcome is Outcome.FAILED
        ),
    ]
    unjudged = [f for f in comparison.findings if f.outcome is Outcome.UNJUDGED]
    unseen = {f.bears_on for f in unjudged}
    summary = Summary.HEALTHY
    if hard or too_low:
        summary = Summary.FAILED
    elif worse:
        summary = Summary.DEGRADED
    elif blind or BearsOn.DEGRADED in unseen:
        summary = Summary.INCONCLUSIVE
    bad = bool(hard or too_low or worse)
    return GoldenVerdict(
        summary=summary,
        changed=Tri.YES if moved else Tri.UNKNOWN if blind or BearsOn.CHANGED in unseen else Tri.NO,
        degraded=Tri.YES if bad else Tri.UNKNOWN if summary is Summary.INCONCLUSIVE else Tri.NO,
        reasons=(
            *hard,
            *too_low,
            *worse,
            *moved,
            *blind,
            *(Reason(f"unjudged_{code_of(f)}", f.sentence, None) for f in unjudged),
        ),
        worst_cases=tuple(c.case_id for c in comparison.cases if _shows_something(c.badness))[
            :WORST
        ],
        suspected=_suspect(comparison) if moved or bad else None,
    )


def _shows_something(badness: tuple[float, ...]) -> bool:
    missing, critical, dissimilarity, loss, delta = badness
    return bool(missing or critical or dissimilarity > 0.05 or loss > 0 or delta > 0)


def code_of(finding: Finding) -> str:
    """Name a finding by statistic and channel."""
    return f"{finding.statistic}_{finding.channel}" if finding.channel else str(finding.statistic)


def _below_failed_floor(comparison: Comparison, floors: Floors) -> list[Reason]:
    mean = comparison.mean_similarity
    if mean is None or mean >= floors.similarity_failed:
        return []
    return [
        Reason(
            "similarity_below_failed_floor",
            f"mean similarity {mean:.3f} is below {floors.similarity_failed}",
            BearsOn.DEGRADED,
        )
    ]


def _hard_failures(comparison: Comparison, floors: Floors) -> list[Reason]:
    """Return what makes the run failed however little else could be judged."""
    reasons = []
    critical = [c.case_id for c in comparison.cases if c.critical_failed]
    if critical:
        reasons.append(
            Reason(
                "critical_case_failed",
                f"critical cases fail their checks: {', '.join(critical[:5])}",
                BearsOn.DEGRADED,
            )
        )
    share = len(comparison.missing) / max(1, len(comparison.cases))
    if share > floors.max_missing_share:
        first = comparison.missing[0]
        reasons.append(
            Reason(
                "cases_missing",
                f"{len(comparison.missing)} of {len(comparison.cases)} cases have no answer, "
                f"first {first.case_id}: {first.missing}",
                BearsOn.DEGRADED,
            )
        )
    gross = [
        f
        for f in comparison.findings
        if f.statistic is Statistic.LOGPROB_DELTA
        and f.value is not None
        and f.value > floors.gross_logprob
        # An infinite value comes from a changed tokenisation or missing numbers: changed, and
        # whether it is worse is for the texts to say.
        and math.isfinite(f.value)
    ]
    if gross:
        reasons.append(
            Reason(
                "logprob_gross",
                f"stored answers became improbable: {gross[0].sentence}",
                BearsOn.DEGRADED,
            )
        )
    return reasons


def _degradations(comparison: Comparison, floors: Floors) -> list[Reason]:
    reasons = [
        Reason(code_of(f), f.sentence, BearsOn.DEGRADED)
        for f in comparison.findings
        if f.bears_on is BearsOn.DEGRADED and f.outcome is Outcome.FAILED
    ]
    mean = comparison.mean_similarity
    if mean is not None and floors.similarity_failed <= mean < floors.similarity_alert:
        reasons.append(
            Reason(
                "similarity_below_alert_floor",
                f"mean similarity {mean:.3f} is below {floors.similarity_alert}",
                BearsOn.DEGRADED,
            )
        )
    share = len(comparison.missing) / max(1, len(comparison.cases))
    if 0 < share <= floors.max_missing_share:
        ids = ", ".join(c.case_id for c in comparison.missing)
        reasons.append(Reason("case_missing", f"without an answer: {ids}", BearsOn.DEGRADED))
    return reasons


def _blindness(comparison: Comparison, floors: Floors) -> list[Reason]:
    """Return why too little could be judged; faults of the network are nobody's quality."""
    if comparison.probes == 0:
        return [Reason("no_probes", "nothing was asked", None)]
    reasons = []
    if 1 - comparison.lost / comparison.probes < floors.min_judged_share:
        reasons.append(
            Reason(
                "too_few_answers",
                f"{comparison.lost} of {comparison.probes} requests were lost in transport; a "
                f"verdict needs {floors.min_judged_share:.0%} of them",
                None,
            )
        )
    unseen = [c.case_id for c in comparison.cases if c.is_critical and c.checks is None]
    if unseen:
        reasons.append(
            Reason("critical_case_lost", f"critical cases lost: {', '.join(unseen[:5])}", None)
        )
    return reasons


def _suspect(comparison: Comparison) -> str | None:
    """Read the likely place of the fault off the channels (detection anchors, 4.5)."""
    bad = {(f.statistic, f.channel) for f in comparison.findings if f.outcome is Outcome.FAILED}
    raw = (Statistic.LOGPROB_DELTA, Channel.RAW_SCORED) in bad
    chat = (Statistic.LOGPROB_DELTA, Channel.CHAT_SCORED) in bad
    contract = (Statistic.CONTRACT, Channel.CONTRACT) in bad
    decoded = {
        channel
        for statistic, channel in bad
        if statistic not in {Statistic.LOGPROB_DELTA, Statistic.CONTRACT} and channel is not None
    }
    if contract or (chat and not raw):
        return "chat template, tokenizer or server configuration"
    if raw:
        return "weights, kernels or numeric format: the forward pass itself gives other numbers"
    if decoded == {Channel.SEEDED}:
        return "the sampler: greedy answers are the same"
    if decoded == {Channel.LONG_CONTEXT}:
        return "long context: positions, truncation or cache paging"
    if decoded:
        return "decoding: KV cache, penalties or decode kernels; scoring is the same"
    return None
