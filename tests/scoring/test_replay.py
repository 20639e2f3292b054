"""Served answers against a reference, token by token: healthy look-alikes beside every contradiction."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.exchanges.masking import mask_text
from quality_lib.records import Outcome, Tri
from quality_lib.scoring.limits import ReplayLimits
from quality_lib.scoring.replay import (
    HIDDEN,
    MOST_ROWS_SHOWN,
    MOST_TOKENS_SHOWN,
    Contradiction,
    Replayed,
    ReplayTotals,
    RowReplay,
    Skip,
    bends_logits,
    hold_against,
    holds_masks,
    judge_replay,
    skipped,
    totals_of,
)
from tests.scoring.builders import exchange

LIMITS = ReplayLimits()


def served(logprobs: list[float] | None, tokens: int = 4, **more: Any) -> Exchange:
    answer = Answer(
        "text",
        token_ids=tuple(range(tokens)),
        logprobs=None if logprobs is None else tuple(logprobs),
    )
    return exchange(answer=answer, **more)


def reference(logprobs: list[float | None], best: list[float] | None = None) -> Replayed:
    known = best or [-0.1] * len(logprobs)
    return Replayed(tuple(logprobs), tuple(known), tuple(f"t{n}" for n in range(len(logprobs))))


def contradictions(own: Exchange, said: Replayed, limits: ReplayLimits = LIMITS) -> list[str]:
    return [token.contradiction.value for token in hold_against(own, said, limits).bad]


@pytest.mark.parametrize(
    ("reported", "found", "expected"),
    [
        # rounding as it was measured: 0.05 alone, up to 0.36 in a batch
        ([-0.5, -1.0, -2.0, -0.1], [-0.45, -1.36, -1.7, -0.1], []),
        ([-0.5, -1.0, -2.0, -0.1], [-0.5, -1.0, -4.0, -0.1], ["logprob_disagrees"]),
        ([-0.5, -1.0, -2.0, -0.1], [-0.5, -1.0, -18.0, -0.1], ["impossible_token"]),
        # a rare draw that the server itself reported as rare
        ([-0.5, -1.0, -16.1, -0.1], [-0.5, -1.0, -16.0, -0.1], []),
        (None, [-0.5, -1.0, -16.0, -0.1], ["impossible_token"]),
        (None, [-0.5, -1.0, -9.0, -0.1], []),
        # as many values as tokens, or they say nothing
        ([-0.5], [-0.5, -1.0, -2.0, -0.1], []),
        ([-0.5, -1.0, -2.0, -0.1], [None, -1.0, -2.0, -0.1], []),
    ],
)
def test_a_token_is_contradicted_beyond_rounding_only(
    reported: list[float] | None, found: list[float | None], expected: list[str]
) -> None:
    assert contradictions(served(reported), reference(found)) == expected


@pytest.mark.parametrize(
    ("temperature", "best", "expected"),
    [
        (0, -0.1, []),  # a near-tie: 0.4 below the best
        (0, 0.6, ["not_greedy"]),
        (0.7, 0.6, []),  # sampling may take any
        (None, 0.6, []),  # the server's default is not known
    ],
)
def test_a_greedy_token_is_the_best_one_or_nearly(
    temperature: float | None, best: float, expected: list[str]
) -> None:
    params = {} if temperature is None else {"temperature": temperature}
    own = served([-0.5] * 4, params=params)
    assert contradictions(own, reference([-0.5] * 4, [best, -0.5, -0.5, -0.5])) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"params": {"temperature": 0, "logit_bias": {"5": 100}}},
        {"params": {"temperature": 0, "repetition_penalty": 1.3}},
        {"params": {"temperature": 0, "tool_choice": {"type": "function"}}},
        {"params": {"temperature": 0, "min_tokens": 50}},
    ],
)
def test_a_request_that_bends_the_choice_is_compared_by_its_reported_values_alone(
    change: dict[str, Any],
) -> None:
    own = served([-20.0, -1.0, -1.0, -1.0], **change)
    assert bends_logits(own)
    assert contradictions(own, reference([-20.0, -1.0, -1.0, -1.0])) == []
    assert contradictions(own, reference([-20.0, -1.0, -1.0, -6.0])) == ["logprob_disagrees"]


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"temperature": 0, "tool_choice": "auto", "repetition_penalty": 1.0}},
        {"params": {"frequency_penalty": 0, "logit_bias": {}, "min_tokens": 0}},
        {"response_format": {"type": "text"}},
        {},
    ],
)
def test_a_plain_request_bends_nothing(change: dict[str, Any]) -> None:
    assert not bends_logits(served(None, **change))


def test_processed_values_are_not_compared() -> None:
    limits = ReplayLimits(reported="processed")
    row = hold_against(served([-9.0] * 4), reference([-0.5] * 4), limits)
    assert (row.compared, row.bad_count) == (0, 0)


def test_evidence_names_place_and_surroundings() -> None:
    said = Replayed((-0.1, -20.0), (-0.1, -0.1), ("mail me ", "today"))
    (token,) = hold_against(served([-0.1, -0.2], tokens=2), said, LIMITS, mask).bad
    assert (token.position, token.offset, token.contradiction) == (1, 8, Contradiction.IMPOSSIBLE)
    assert (token.reference, token.reported) == (-20.0, -0.2)
    assert (token.piece, token.context) == ("today", "mail me today")


def mask(text: str) -> str:
    return mask_text(text).text


SECRET = "sk-proj-" + "".join("abcdefgh1234567890"[n * 7 % 18] for n in range(150))


@pytest.mark.parametrize("before", [0, 30, 200])
@pytest.mark.parametrize("after", [0, 30, 200])
def test_no_part_of_a_secret_is_shown(before: int, after: int) -> None:
    """The window around a token may cut a secret so that what is left is not recognised as one."""
    text = "word " * (before // 5) + f"key: {SECRET} " + "more " * (after // 5)
    assert SECRET not in mask(text)
    pieces = [text[n : n + 4] for n in range(0, len(text), 4)]
    for at in range(0, len(pieces), 3):
        reference = tuple(-20.0 if n == at else -0.1 for n in range(len(pieces)))
        said = Replayed(reference, (-0.1,) * len(pieces), tuple(pieces))
        own = served([-0.1] * len(pieces), tokens=len(pieces))
        (token,) = hold_against(own, said, LIMITS, mask).bad
        shown = token.piece + token.context
        assert not any(SECRET[n : n + 8] in shown for n in range(len(SECRET) - 8)), at
        start = text.index(SECRET)
        is_far = 4 * at + 64 <= start or 4 * at - 60 >= start + len(SECRET)
        assert (token.context == HIDDEN) is not is_far


def test_only_the_first_bad_tokens_are_kept_and_all_are_counted() -> None:
    row = hold_against(served([-0.1] * 50, tokens=50), reference([-30.0] * 50), LIMITS)
    assert (len(row.bad), row.bad_count) == (MOST_TOKENS_SHOWN, 50)


def row(bad: int = 0, tokens: int = 60, difference: float = 0.02, number: int = 0) -> RowReplay:
    return RowReplay(f"r{number}", "", "", tokens, tokens, tokens * difference, difference, bad, ())


def total(*rows: RowReplay) -> ReplayTotals:
    return sum((totals_of(r, LIMITS) for r in rows), ReplayTotals())


@pytest.mark.parametrize(
    ("totals", "changed", "outcome", "reason"),
    [
        (None, "unknown", "UNJUDGED", "replay_not_done"),
        (ReplayTotals(), "unknown", "UNJUDGED", "replay_too_few_tokens"),
        (total(*[row()] * 3), "unknown", "UNJUDGED", "replay_too_few_tokens"),
        (total(*[row()] * 4), "no", "PASSED", "replay_agrees"),
        (total(*[row()] * 9, row(bad=3)), "unknown", "SUSPECT", "replay_contradicts_once"),
        (total(*[row()] * 9, row(bad=1), row(bad=2)), "yes", "FAILED", "replay_contradicts"),
        (total(*[row(difference=0.11)] * 4), "yes", "FAILED", "replay_logprobs_moved"),
        (total(*[row(difference=0.099)] * 4), "no", "PASSED", "replay_agrees"),
    ],
)
def test_the_verdict_of_a_replay(
    totals: ReplayTotals | None, changed: str, outcome: str, reason: str
) -> None:
    found, verdict = judge_replay(totals, LIMITS)
    assert (found, verdict.outcome, verdict.reason) == (Tri(changed), Outcome(outcome), reason)


def test_without_reported_values_the_tokens_alone_are_judged() -> None:
    totals = ReplayTotals(rows=5, tokens=500)
    assert judge_replay(totals, LIMITS)[0] is Tri.NO


def test_what_was_left_out_is_told() -> None:
    totals = skipped(Skip.NO_TOKENS) + skipped(Skip.NO_TOKENS) + skipped(Skip.PROMPT_DIFFERS)
    _, verdict = judge_replay(totals, LIMITS)
    assert "2 × no token ids" in verdict.sentence
    assert verdict.evidence["skipped"] == {"no_token_ids": 2, "prompt_tokens_differ": 1}


def test_totals_keep_the_worst_rows_and_add_up_the_rest() -> None:
    totals = total(*(row(bad=n, number=n) for n in range(100)))
    assert (totals.rows, totals.flagged, totals.bad_tokens) == (100, 99, 4950)
    assert len(totals.shown) == MOST_ROWS_SHOWN
    assert totals.shown[0].bad_count == 99


@pytest.mark.parametrize(
    ("text", "is_masked"),
    [
        ("write to [email] now", True),
        ("[ip]", True),
        ("a list [1] of [emails]", False),
        ("", False),
    ],
)
def test_masked_prompts_are_recognised(text: str, is_masked: bool) -> None:
    assert holds_masks(text) is is_masked


@pytest.mark.parametrize(
    "wrong", [{"reported": "cooked"}, {"impossible_logprob": 1.0}, {"min_tokens": 0}]
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReplayLimits(**wrong)
