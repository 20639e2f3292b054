"""A golden run held against a baseline: findings by statistic, cases by severity. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from quality_lib.drift.band import falls_of, paired_band
from quality_lib.errors import DigestMismatch
from quality_lib.golden.answer import (
    DECODE_CHANNELS,
    SCORED_CHANNELS,
    Channel,
    Fault,
    GoldenRun,
    Probe,
    ids_digest,
)
from quality_lib.golden.baseline import Baseline, CaseBaseline, logprob_delta
from quality_lib.golden.case import GoldenCase, GoldenSet
from quality_lib.golden.observation import (
    CaseObservation,
    attempts_of,
    observe,
    similarity_table,
    spoken,
)
from quality_lib.golden.ports import Similarity
from quality_lib.records import Outcome


class Statistic(StrEnum):
    """What is measured; each in [0, 1] with 1 the best, but for ``logprob_delta`` (nats per token)."""

    SIMILARITY = "similarity"
    EXACT = "exact"
    AGREEMENT = "agreement"
    FACTS = "facts"
    CHECKS = "checks"
    LOGPROB_DELTA = "logprob_delta"
    CONTRACT = "contract"


class BearsOn(StrEnum):
    """Which half of the verdict a finding speaks to."""

    CHANGED = "changed"
    DEGRADED = "degraded"


@dataclass(frozen=True)
class Limits:
    """The numbers that findings are held against; the settings' ``Thresholds`` carry the defaults."""

    band_sigmas: float = 6.0
    band_floor: float = 0.02
    exact_floor: float = 0.15
    logprob_floor: float = 0.05
    false_alarm: float = 1e-3


@dataclass(frozen=True)
class Finding:
    """One statistic of one channel against its band."""

    statistic: Statistic
    channel: Channel | None
    """None: over all decoding channels."""
    bears_on: BearsOn
    outcome: Outcome
    sentence: str
    value: float | None = None
    healthy: float | None = None
    """The mean of the healthy runs on the same cases."""
    limit: float | None = None
    """The edge of the band that must not be crossed."""
    cases: int = 0


@dataclass(frozen=True)
class CaseComparison:
    """One case beside its baseline."""

    case_id: str
    channel: Channel
    similarity: float | None
    exact: float | None
    facts: float | None
    healthy_facts: float | None
    checks: float | None
    healthy_checks: float | None
    failed_checks: tuple[str, ...]
    logprob_delta: float | None
    """The largest of the scored channels, nats per token; infinite when numbers are missing."""
    is_critical: bool
    critical_failed: bool
    missing: str | None
    baseline_text: str
    current_text: str
    prompt: str
    """The last user message, for people."""

    @property
    def badness(self) -> tuple[float, ...]:
        """Sort key, the worst first when reversed."""
        loss = (self.healthy_checks or 0) - (self.checks if self.checks is not None else 0)
        forgot = (self.healthy_facts or 0) - (self.facts if self.facts is not None else 0)
        return (
            float(self.missing is not None),
            float(self.critical_failed),
            1.0 - (self.similarity if self.similarity is not None else 1.0),
            max(0.0, loss) + max(0.0, forgot),
            self.logprob_delta or 0.0,
        )


@dataclass(frozen=True)
class Comparison:
    """All that a verdict needs to know."""

    run_id: str
    service: str
    started_at: str
    golden_digest: str
    baseline_run_ids: tuple[str, ...]
    probes: int
    judged: int
    lost: int
    mean_similarity: float | None
    """Over all decoded cases; the floors of requirement G5.4 apply to it."""
    findings: tuple[Finding, ...]
    cases: tuple[CaseComparison, ...]
    """The worst first."""

    @property
    def missing(self) -> tuple[CaseComparison, ...]:
        """Return the cases that the server refused or that the run does not hold."""
        return tuple(case for case in self.cases if case.missing is not None)


def compare(
    cases: GoldenSet,
    run: GoldenRun,
    baseline: Baseline,
    similarity: Similarity,
    limits: Limits,
    golden_digest: str,
) -> Comparison:
    """Hold a run against a baseline of the same golden set.

    Raises:
        DigestMismatch: run, baseline and ``golden_digest`` do not all belong to one golden set.
    """
    for what, digest in (("the baseline", baseline.golden_digest), ("the run", run.golden_digest)):
        if digest != golden_digest:
            raise DigestMismatch(
                f"{what} was made with golden set {digest[:12]}, this is {golden_digest[:12]}",
                fix="build a new baseline with 'quality golden baseline' after changing the set",
            )
    if baseline.run_ids[0] not in {run.reference_run_id, run.run_id}:
        raise DigestMismatch(
            f"run {run.run_id} did not score the answers of this baseline",
            fix="make the run with 'quality golden run --baseline BASELINE'",
        )
    known = {case.id: baseline.cases[case.id] for case in cases}
    table = similarity_table(
        (
            (spoken(answer), known[case.id].texts)
            for case in cases
            for answer in attempts_of(case, run.answers)
            if answer is not None and answer.is_judgeable
        ),
        similarity,
    )
    seen = {case.id: observe(case, run.answers, known[case.id].texts, table) for case in cases}
    deltas = {
        channel: {
            case.id: delta
            for case in cases
            if (delta := _scored_delta(case, channel, run, known[case.id])) is not None
        }
        for channel in SCORED_CHANNELS
    }
    steady = {channel: _repeats_itself(cases, channel, run) for channel in SCORED_CHANNELS}
    expected = _expected_probes(cases, baseline)
    judged = sum(1 for key in expected if key in run.answers and run.answers[key].is_judgeable)
    lost = sum(
        1 for key in expected if key in run.answers and run.answers[key].fault is Fault.TRANSPORT
    )
    similarities = [o.similarity for o in seen.values() if o.similarity is not None]
    compared = [_compare_case(case, seen[case.id], known[case.id], deltas) for case in cases]
    return Comparison(
        run_id=run.run_id,
        service=run.service,
        started_at=run.started_at,
        golden_digest=golden_digest,
        baseline_run_ids=baseline.run_ids,
        probes=len(expected),
        judged=judged,
        lost=lost,
        mean_similarity=sum(similarities) / len(similarities) if similarities else None,
        findings=(
            _contract_finding(cases, run, baseline),
            *(
                _scored_finding(c, deltas[c], steady[c], baseline, limits)
                for c in SCORED_CHANNELS
                if any(c in case.scored for case in known.values())
            ),
            *_decode_findings(seen, known, limits),
        ),
        cases=tuple(sorted(compared, key=lambda c: c.badness, reverse=True)),
    )


def _expected_probes(cases: GoldenSet, baseline: Baseline) -> list[str]:
    keys: list[str] = []
    for case in cases:
        known = baseline.cases[case.id]
        for attempt in range(1, case.repeats + 1):
            keys.extend(Probe(case.id, c, attempt).key for c in (known.channel, *known.scored))
    return keys


def _scored_delta(
    case: GoldenCase, channel: Channel, run: GoldenRun, known: CaseBaseline
) -> float | None:
    """Return the largest delta over the attempts; infinite when refused, None when lost or unscored."""
    if channel not in known.scored:
        return None
    reference = known.scored[channel]
    deltas = []
    for attempt in range(1, case.repeats + 1):
        answer = run.answers.get(Probe(case.id, channel, attempt).key)
        if answer is not None and answer.fault is Fault.TRANSPORT:
            continue
        if answer is None or ids_digest(answer.token_ids) != reference.ids_digest:
            deltas.append(math.inf)
        else:
            deltas.append(logprob_delta(reference.logprobs, answer.logprobs))
    return max(deltas, default=None)


def _repeats_itself(cases: GoldenSet, channel: Channel, run: GoldenRun) -> bool:
    """Whether the attempts of this run agree bit for bit with each other; one attempt shows nothing.

    They do not while other traffic shares the batch; then a difference from the baseline's bits
    proves nothing and the band decides, as on platforms that never repeat.
    """
    has_pairs = False
    for case in cases:
        scores = [
            answer.logprobs
            for attempt in range(1, case.repeats + 1)
            if (answer := run.answers.get(Probe(case.id, channel, attempt).key)) is not None
            and answer.is_judgeable
        ]
        if any(other != scores[0] for other in scores[1:]):
            return False
        has_pairs = has_pairs or len(scores) > 1
    return has_pairs


def _contract_finding(cases: GoldenSet, run: GoldenRun, baseline: Baseline) -> Finding:
    moved = [
        f"{name}: {baseline.contract[name]!r} → {run.contract.get(name)!r}"
        for name in sorted(baseline.contract)
        if run.contract.get(name) != baseline.contract[name]
    ]
    prompts = [
        case.id
        for case in cases
        for answer in attempts_of(case, run.answers)
        if answer is not None
        and answer.is_judgeable
        and ids_digest(answer.prompt_token_ids) != baseline.cases[case.id].prompt_digest
    ]
    prompts = list(dict.fromkeys(prompts))
    if prompts:
        moved.append(f"the prompt tokens of {len(prompts)} cases differ, first {prompts[0]}")
    sentence = (
        f"interface facts differ: {'; '.join(moved)}"
        if moved
        else f"all {len(baseline.contract)} interface facts and all prompt tokens are the same"
    )
    return Finding(
        statistic=Statistic.CONTRACT,
        channel=Channel.CONTRACT,
        bears_on=BearsOn.CHANGED,
        outcome=Outcome.FAILED if moved else Outcome.PASSED,
        sentence=sentence,
        value=float(len(moved)),
        healthy=0.0,
        limit=0.0,
        cases=len(cases),
    )


def _scored_finding(
    channel: Channel,
    deltas: Mapping[str, float],
    steady: bool,
    baseline: Baseline,
    limits: Limits,
) -> Finding:
    name = channel.replace("_", " ")
    finite = [d for d in deltas.values() if math.isfinite(d)]
    broken = len(deltas) - len(finite)
    value = sum(finite) / len(finite) if finite else math.inf
    exact = steady and baseline.is_deterministic(channel)
    rows = [baseline.cases[c].scored[channel].deltas for c in deltas]
    band = paired_band(rows, limits.band_sigmas, 0.0)
    limit = 0.0 if exact else max(limits.logprob_floor, band.high if band else 0.0)
    moved = sum(d != 0.0 for d in deltas.values())
    if not deltas:
        outcome, sentence = Outcome.UNJUDGED, f"{name}: nothing was scored"
    elif broken:
        outcome = Outcome.FAILED
        sentence = f"{name}: {broken} of {len(deltas)} stored answers have no comparable scores"
    elif exact and moved:
        outcome = Outcome.FAILED
        sentence = (
            f"{name}: {moved} of {len(deltas)} stored answers score differently, by {value:.2g} nats "
            "per token on average; the server repeats itself bit for bit, so this is a real change"
        )
    elif exact:
        outcome = Outcome.PASSED
        sentence = f"{name}: all {len(deltas)} stored answers score bit for bit as in the baseline"
    else:
        outcome = Outcome.FAILED if value > limit else Outcome.PASSED
        sentence = (
            f"{name}: stored answers score differently by {value:.4f} nats per token on average, "
            f"within health up to {limit:.4f}"
        )
        if not steady:
            sentence += "; the server did not repeat itself, other traffic shares its batches"
    return Finding(
        statistic=Statistic.LOGPROB_DELTA,
        channel=channel,
        bears_on=BearsOn.CHANGED,
        outcome=outcome,
        sentence=sentence,
        value=value if deltas else None,
        healthy=band.mean if band else None,
        limit=limit,
        cases=len(deltas),
    )


_DECODED: tuple[tuple[Statistic, BearsOn, bool], ...] = (
    (Statistic.SIMILARITY, BearsOn.DEGRADED, True),
    (Statistic.EXACT, BearsOn.CHANGED, True),
    (Statistic.AGREEMENT, BearsOn.CHANGED, True),
    (Statistic.FACTS, BearsOn.DEGRADED, False),
    (Statistic.CHECKS, BearsOn.DEGRADED, False),
)
"""Statistic, what it bears on, and whether it is taken channel by channel."""


def _decode_findings(
    seen: Mapping[str, CaseObservation], known: Mapping[str, CaseBaseline], limits: Limits
) -> list[Finding]:
    findings = []
    for statistic, bears_on, by_channel in _DECODED:
        for channel in DECODE_CHANNELS if by_channel else (None,):
            pairs = [
                (value, healthy)
                for case_id, now in seen.items()
                if (channel is None or now.channel is channel)
                and (value := getattr(now, statistic.value)) is not None
                and (healthy := known[case_id].healthy(statistic)) is not None
            ]
            if pairs or _was_measured(known, statistic, channel):
                findings.append(_decode_finding(statistic, channel, bears_on, pairs, limits))
    return findings


def _was_measured(
    known: Mapping[str, CaseBaseline], statistic: Statistic, channel: Channel | None
) -> bool:
    return any(
        (channel is None or case.channel is channel) and case.healthy(statistic) is not None
        for case in known.values()
    )


def _decode_finding(
    statistic: Statistic,
    channel: Channel | None,
    bears_on: BearsOn,
    pairs: Sequence[tuple[float, Sequence[float]]],
    limits: Limits,
) -> Finding:
    name = f"{statistic} ({channel.replace('_', ' ')})" if channel else str(statistic)
    exact = statistic in {Statistic.EXACT, Statistic.AGREEMENT}
    floor = limits.exact_floor if exact else limits.band_floor
    band = paired_band([healthy for _, healthy in pairs], limits.band_sigmas, floor)
    if band is None:
        return Finding(
            statistic, channel, bears_on, Outcome.UNJUDGED, f"{name}: no case could be judged"
        )
    value = sum(v for v, _ in pairs) / len(pairs)
    # Healthy runs that were all alike have no spread, yet a near-tie may flip in the next one: the
    # fall must come from more cases than flip in health.
    falls, chance = falls_of(pairs, limits.false_alarm)
    is_low = value < band.low
    bad = is_low and falls > chance
    return Finding(
        statistic=statistic,
        channel=channel,
        bears_on=bears_on,
        outcome=Outcome.FAILED if bad else Outcome.PASSED,
        sentence=f"{name}: {value:.3f} over {len(pairs)} cases, healthy {band.mean:.3f}, "
        f"at least {band.low:.3f}, {falls} lower than ever in health"
        + (f"; up to {chance} of so few may be chance" if is_low and not bad else ""),
        value=value,
        healthy=band.mean,
        limit=band.low,
        cases=len(pairs),
    )


def _compare_case(
    case: GoldenCase,
    now: CaseObservation,
    known: CaseBaseline,
    deltas: Mapping[Channel, Mapping[str, float]],
) -> CaseComparison:
    own = [d[case.id] for d in deltas.values() if case.id in d]
    prompts = [m["content"] for m in case.messages if m.get("role") == "user"]
    return CaseComparison(
        case_id=case.id,
        channel=now.channel,
        similarity=now.similarity,
        exact=now.exact,
        facts=now.facts,
        healthy_facts=_mean(known.healthy(Statistic.FACTS)),
        checks=now.checks,
        healthy_checks=_mean(known.healthy(Statistic.CHECKS)),
        failed_checks=now.failed_checks,
        logprob_delta=max(own, default=None),
        is_critical=case.critical,
        critical_failed=case.critical and known.passes_always and bool(now.failed_checks),
        missing=now.missing,
        baseline_text=spoken(known.reference),
        current_text=now.text,
        prompt=str(prompts[-1]) if prompts else "",
    )


def _mean(values: Sequence[float] | None) -> float | None:
    return sum(values) / len(values) if values else None
