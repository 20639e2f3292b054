"""What one run shows of one case, as numbers in [0, 1] that can be averaged. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quality_lib.errors import OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, Probe
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.checks import check_answer, fact_score
from quality_lib.golden.plan import decode_channel
from quality_lib.golden.ports import Similarity
from quality_lib.records import Outcome, Verdict


@dataclass(frozen=True)
class CaseObservation:
    """One case in one run, averaged over its attempts. None: not judged."""

    case_id: str
    channel: Channel
    similarity: float | None
    """With the nearest healthy text."""
    exact: float | None
    """Share of attempts that equal a healthy text."""
    agreement: float | None
    """Share of later attempts that equal the first: cold against warm prefix cache."""
    facts: float | None
    """Share of the expected facts found; None also when the case expects none."""
    checks: float | None
    """Share of the case's structure checks passed."""
    failed_checks: tuple[str, ...]
    """Reason codes that failed in any attempt."""
    text: str
    """The first attempt that was answered."""
    missing: str | None
    """Why an attempt is missing: the server's refusal, or 'not in the run'."""
    lost: int
    """Attempts lost in transport; they say nothing about quality."""


def spoken(answer: Answer) -> str:
    """Return all that the model said: the text, then its tool calls as canonical lines."""
    calls = [
        json.dumps(dict(call), sort_keys=True, ensure_ascii=False) for call in answer.tool_calls
    ]
    return "\n".join([answer.text, *calls]) if calls else answer.text


def attempts_of(case: GoldenCase, answers: Mapping[str, Answer]) -> list[Answer | None]:
    """Return the decoded attempts of a case in order; None for one that is not in the run."""
    channel = decode_channel(case)
    return [
        answers.get(Probe(case.id, channel, attempt).key) for attempt in range(1, case.repeats + 1)
    ]


def healthy_texts(case: GoldenCase, runs: Iterable[Mapping[str, Answer]]) -> tuple[str, ...]:
    """Return the distinct texts that healthy runs gave, in order of appearance."""
    texts = [
        spoken(answer)
        for answers in runs
        for answer in attempts_of(case, answers)
        if answer is not None and answer.is_judgeable
    ]
    return tuple(dict.fromkeys(texts))


def similarity_table(
    said: Iterable[tuple[str, Sequence[str]]], similarity: Similarity
) -> dict[tuple[str, str], float]:
    """Rate each distinct pair of an answer and a healthy text once; a text against nothing is 0.

    An answer that is one of its healthy texts needs no rating, and with none to rate the model does
    not load: that takes longer than the few answers of a rollback's step.

    Raises:
        OutsideFailure: a rating is no number: the checker is broken, not the model.
    """
    table: dict[tuple[str, str], float] = {}
    open_pairs: list[tuple[str, str]] = []
    pairs = ((answer, text) for answer, texts in said if answer not in texts for text in texts)
    for pair in dict.fromkeys(pairs):
        if not pair[0].strip() or not pair[1].strip():
            table[pair] = 0.0
        else:
            open_pairs.append(pair)
    rated = similarity(open_pairs) if open_pairs else ()
    if not all(math.isfinite(rating) for rating in rated):
        raise OutsideFailure("the embedding model gives no numbers; nothing can be judged with it")
    table.update(zip(open_pairs, (min(1.0, max(0.0, float(r))) for r in rated), strict=True))
    return table


def observe(
    case: GoldenCase,
    answers: Mapping[str, Answer],
    texts: Sequence[str],
    table: Mapping[tuple[str, str], float],
) -> CaseObservation:
    """Measure one case of a run against the healthy ``texts``; ``table`` rates the pairs."""
    attempts = attempts_of(case, answers)
    judged = [a for a in attempts if a is not None and a.is_judgeable]
    refused = [a for a in attempts if a is not None and a.fault is Fault.REFUSED]
    missing = "not in the run" if any(a is None for a in attempts) else None
    if refused:
        missing = refused[0].error or "refused"
    lost = sum(1 for a in attempts if a is not None and a.fault is Fault.TRANSPORT)
    # A missing attempt counts as the worst answer; a lost one does not count.
    weight = len(attempts) - lost
    said = [spoken(a) for a in judged]
    verdicts = [checks_of(case, a) for a in judged]
    nearest = [1.0 if s in texts else max((table[s, t] for t in texts), default=0.0) for s in said]
    return CaseObservation(
        case_id=case.id,
        channel=decode_channel(case),
        similarity=_share(nearest, weight) if texts else None,
        exact=_share([float(s in texts) for s in said], weight) if texts else None,
        agreement=_share([float(s == said[0]) for s in said[1:]], weight - 1),
        facts=_share([f for s in said if (f := fact_score(case, s)) is not None], weight)
        if case.facts
        else None,
        checks=_share([p for v in verdicts if (p := _passed(v)) is not None], weight),
        failed_checks=tuple(
            dict.fromkeys(v.reason for vs in verdicts for v in vs if v.outcome is Outcome.FAILED)
        ),
        text=said[0] if said else "",
        missing=missing,
        lost=lost,
    )


def checks_of(case: GoldenCase, answer: Answer) -> tuple[Verdict, ...]:
    """Run the case's structure checks on one answer."""
    return check_answer(case, answer.text, answer.tool_calls, answer.finish_reason)


def _passed(verdicts: Sequence[Verdict]) -> float | None:
    judged = [v for v in verdicts if v.outcome is not Outcome.UNJUDGED]
    if not judged:
        return None
    return sum(v.outcome is Outcome.PASSED for v in judged) / len(judged)


def _share(values: Sequence[float], weight: int) -> float | None:
    return sum(values) / weight if weight > 0 else None
