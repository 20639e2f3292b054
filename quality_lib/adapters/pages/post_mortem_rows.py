"""Worst cases and changed tensors as the post-mortem's page shows them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from quality_lib.adapters.pages.report_rows import CHANNEL_WORDS, NO_NUMBER, nats, share
from quality_lib.adapters.pages.text_diff import SideBySide, shorten, side_by_side
from quality_lib.golden.comparison import CaseComparison
from quality_lib.golden.result import GoldenResult
from quality_lib.rollout.post_mortem_facts import TensorChange

MOST_CASES = 6
_LONGEST_PROMPT = 700
_LONGEST_NOW = 1500


@dataclass(frozen=True)
class Case:
    """A worst case: what it should be, what was served, what is served now."""

    case_id: str
    channel: str
    prompt: str
    prompt_more: int
    texts: SideBySide
    now: str | None
    """The target's answer; None when it was not asked or answers as its baseline does."""
    numbers: tuple[tuple[str, str], ...]


def worst_cases(before: GoldenResult | None, after: GoldenResult | None) -> Iterator[Case]:
    """Give the worst cases of what served, each with the target's answer where that differs."""
    if before is None:
        return
    known = {case.case_id: case for case in before.comparison.cases}
    now = {case.case_id: case for case in after.comparison.cases} if after else {}
    for case_id in before.verdict.worst_cases[:MOST_CASES]:
        if (case := known.get(case_id)) is not None:
            yield _case(case, now.get(case_id))


def _case(case: CaseComparison, after: CaseComparison | None) -> Case:
    prompt, more = shorten(case.prompt, _LONGEST_PROMPT)
    numbers = [("Similarity then", share(case.similarity))]
    if case.logprob_delta is not None:
        numbers.append(("Log-probability difference then", nats(case.logprob_delta)))
    if after is not None:
        numbers.append(("Similarity now", share(after.similarity)))
    return Case(
        case_id=case.case_id,
        channel=CHANNEL_WORDS[case.channel],
        prompt=prompt,
        prompt_more=more,
        texts=side_by_side(case.baseline_text, case.current_text or (case.missing or "")),
        now=_now(case, after),
        numbers=tuple(numbers),
    )


def _now(case: CaseComparison, after: CaseComparison | None) -> str | None:
    if after is None or after.current_text == case.baseline_text:
        return None
    return shorten(after.current_text, _LONGEST_NOW)[0]


def tensor_row(one: TensorChange) -> tuple[str, str, str, str, str]:
    """Return name, what happened, share of its numbers, relative change, and new NaN or infinite ones."""
    return (
        one.name,
        one.status,
        NO_NUMBER if one.changed_share is None else f"{one.changed_share:.2%}",
        NO_NUMBER
        if one.relative_l2 is None
        else ("∞" if math.isinf(one.relative_l2) else f"{one.relative_l2:.3g}"),
        f"{one.non_finite:,}",
    )
