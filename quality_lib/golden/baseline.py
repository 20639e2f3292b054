"""The baseline: what repeated healthy runs of a golden set say, with their spread. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quality_lib.errors import BadInput, DigestMismatch, NoData
from quality_lib.golden.answer import (
    SCORED_CHANNELS,
    Answer,
    Channel,
    GoldenRun,
    Probe,
    ids_digest,
)
from quality_lib.golden.case import GoldenCase, GoldenSet
from quality_lib.golden.observation import (
    CaseObservation,
    attempts_of,
    healthy_texts,
    observe,
    similarity_table,
    spoken,
)
from quality_lib.golden.plan import first_attempts
from quality_lib.golden.ports import Similarity

SCHEMA = 1


@dataclass(frozen=True)
class ScoredReference:
    """One stored answer's tokens and their healthy log-probabilities through one channel."""

    ids_digest: str
    logprobs: tuple[float | None, ...]
    deltas: tuple[float, ...]
    """Mean |difference| in nats per token of each further healthy run from the first."""


@dataclass(frozen=True)
class CaseBaseline:
    """One case over all healthy runs."""

    case_id: str
    channel: Channel
    prompt_tokens: int
    prompt_digest: str
    reference: Answer
    """The first run's first answer: what later runs score."""
    texts: tuple[str, ...]
    observations: tuple[CaseObservation, ...]
    """One per healthy run, each measured against the other runs' texts."""
    scored: Mapping[Channel, ScoredReference]

    def healthy(self, statistic: str) -> list[float] | None:
        """Return one value of a ``CaseObservation``'s field per healthy run; None where a run has none."""
        values = [getattr(o, statistic) for o in self.observations]
        return None if any(v is None for v in values) else values

    @property
    def passes_always(self) -> bool:
        """Whether every healthy run passed every check of the case."""
        return all(o.checks == 1.0 for o in self.observations)

    @property
    def is_steady(self) -> bool:
        """Whether every healthy run said the same, word for word."""
        return all(o.exact == 1.0 for o in self.observations)


@dataclass(frozen=True)
class Baseline:
    """What healthy looks like for one service and one golden set."""

    schema: int
    service: str
    model: str
    golden_digest: str
    created_at: str
    run_ids: tuple[str, ...]
    contract: Mapping[str, Any]
    cases: Mapping[str, CaseBaseline]
    environment: Mapping[str, Any] | None = None
    similarity_model: str = ""
    """The embedding model whose numbers the bands are made of; others give other numbers."""

    def is_deterministic(self, channel: Channel) -> bool:
        """Whether scoring repeated bit for bit in every healthy run, so that any difference is real."""
        deltas = [d for case in self.cases.values() for s in _one(case, channel) for d in s.deltas]
        return bool(deltas) and all(d == 0.0 for d in deltas)

    def references(self) -> dict[str, Answer]:
        """Return the answers that later runs score, by case id."""
        return {case_id: case.reference for case_id, case in self.cases.items()}


def _one(case: CaseBaseline, channel: Channel) -> tuple[ScoredReference, ...]:
    return (case.scored[channel],) if channel in case.scored else ()


def build_baseline(
    cases: GoldenSet,
    runs: Sequence[GoldenRun],
    similarity: Similarity,
    created_at: str,
    similarity_model: str = "",
) -> Baseline:
    """Make the baseline of ``runs``, of which the later ones scored the first one's answers.

    Raises:
        NoData: fewer than two runs, or a case that a run could not answer.
        DigestMismatch: runs of another set, or of each other's.
        BadInput: a contract fact that changed between runs.
    """
    if len(runs) < 2:
        raise NoData(f"a baseline needs at least 2 healthy runs, there is {len(runs)}")
    first = runs[0]
    for run in runs[1:]:
        if run.golden_digest != first.golden_digest:
            raise DigestMismatch(
                f"runs {first.run_id} and {run.run_id} asked different golden sets"
            )
        if run.reference_run_id != first.run_id:
            raise DigestMismatch(
                f"run {run.run_id} did not score the answers of run {first.run_id}",
                fix="build the baseline with 'quality golden baseline'",
            )
        if run.deployment_key != first.deployment_key:
            raise BadInput(
                f"the service was redeployed between the healthy runs {first.run_id} and {run.run_id}",
                fix="let the deployment settle, then build the baseline again in a new folder",
            )
        if run.contract != first.contract:
            moved = sorted(k for k in first.contract if run.contract.get(k) != first.contract[k])
            raise BadInput(
                f"the interface changed between healthy runs: {', '.join(moved)}",
                fix="let the deployment settle, then build the baseline again",
            )
    answers = [run.answers for run in runs]
    _refuse_holes(answers)
    others = {
        (case.id, number): healthy_texts(case, [a for i, a in enumerate(answers) if i != number])
        for case in cases
        for number in range(len(runs))
    }
    table = similarity_table(
        (
            (spoken(a), others[case.id, number])
            for case in cases
            for number, run in enumerate(answers)
            for a in attempts_of(case, run)
            if a is not None
        ),
        similarity,
    )
    references = first_attempts(first.answers.values())
    return Baseline(
        schema=SCHEMA,
        service=first.service,
        model=first.model,
        golden_digest=first.golden_digest,
        created_at=created_at,
        run_ids=tuple(run.run_id for run in runs),
        contract=first.contract,
        environment=first.environment,
        similarity_model=similarity_model,
        cases={
            case.id: _case_baseline(case, references[case.id], answers, others, table)
            for case in cases
        },
    )


def _refuse_holes(answers: Sequence[Mapping[str, Answer]]) -> None:
    for run in answers:
        holes = [a for a in run.values() if not a.is_judgeable]
        if holes:
            raise NoData(
                f"{len(holes)} probes of a run have no answer, the first is {holes[0].probe.key}: "
                f"{holes[0].error}. A baseline is made of complete runs only"
            )


def _case_baseline(
    case: GoldenCase,
    reference: Answer,
    answers: Sequence[Mapping[str, Answer]],
    others: Mapping[tuple[str, int], Sequence[str]],
    table: Mapping[tuple[str, str], float],
) -> CaseBaseline:
    scored = {}
    for channel in SCORED_CHANNELS:
        rows = [
            [
                run[key]
                for attempt in range(1, case.repeats + 1)
                if (key := Probe(case.id, channel, attempt).key) in run
            ]
            for run in answers
        ]
        if rows[0]:
            first = rows[0][0]
            deltas = tuple(
                logprob_delta(first.logprobs, again.logprobs)
                for again in [*rows[0][1:], *(a for row in rows[1:] for a in row)]
            )
            # An answer that cannot be scored while healthy (a template may leave nothing of it)
            # says nothing later either.
            if all(math.isfinite(delta) for delta in deltas):
                scored[channel] = ScoredReference(
                    ids_digest(first.token_ids), first.logprobs, deltas
                )
    return CaseBaseline(
        case_id=case.id,
        channel=reference.probe.channel,
        prompt_tokens=len(reference.prompt_token_ids),
        prompt_digest=ids_digest(reference.prompt_token_ids),
        reference=reference,
        texts=healthy_texts(case, answers),
        observations=tuple(
            observe(case, run, others[case.id, number], table) for number, run in enumerate(answers)
        ),
        scored=scored,
    )


def logprob_delta(reference: Sequence[float | None], current: Sequence[float | None]) -> float:
    """Return the mean |difference| in nats per token; infinite when a number is missing or NaN."""
    if len(reference) != len(current) or not reference:
        return math.inf
    total = 0.0
    for a, b in zip(reference, current, strict=True):
        if a is None and b is None:
            continue
        if a is None or b is None or math.isnan(a - b):
            return math.inf
        total += abs(a - b)
    return total / len(reference)
