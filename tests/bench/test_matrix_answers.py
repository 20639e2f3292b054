"""From the server's JSON to a row: what is read, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.matrix.answers import ordered, replayed, row_of
from bench.matrix.probes import Ask, ProbeSet
from bench.matrix.recording import FIRST_TOKEN
from quality_lib.adapters.files.cases import load_cases
from quality_lib.errors import BadInput
from quality_lib.golden.answer import ids_digest

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
CHAT = Ask("a", "greedy", 1, {}, "/v1/chat/completions")
RAW = Ask("a", "raw_scored", 1, {}, "/v1/completions", 2)


def entry(*told: tuple[int, float, int]) -> dict[str, Any]:
    return {str(token): {"logprob": lp, "rank": rank} for token, lp, rank in told}


def raw(entries: list[Any], ids: list[int]) -> dict[str, Any]:
    return {"usage": USAGE, "choices": [{"prompt_logprobs": entries, "prompt_token_ids": ids}]}


def test_a_decoded_answer() -> None:
    payload = {
        "usage": USAGE, "prompt_token_ids": [7, 8, 9],
        "choices": [{"message": {"content": "hi\ud800"}, "token_ids": [1, 2], "finish_reason": "length",
                     "logprobs": {"content": [{"logprob": -0.5}, {"logprob": float("-inf")}]}}],
    }  # fmt: skip
    row = row_of(CHAT, payload)
    assert (row.token_ids, row.logprobs, row.text) == ((1, 2), (-0.5, None), "hi?")
    assert (row.prompt_tokens, row.tokens_in, row.tokens_out) == (3, 3, 2)
    assert row.prompt_digest == ids_digest([7, 8, 9])


def test_a_scored_answer_is_the_end_of_the_prompt() -> None:
    entries = [
        None,
        entry((8, -9.0, 5)),
        entry((5, -1.5, 1), (6, -1.75, 2)),
        entry((6, -3.0, 9), (4, -0.5, 1), (2, -2.0, 2)),
    ]
    row = row_of(RAW, raw(entries, [7, 8, 5, 6]))
    assert row.token_ids == (5, 6)
    assert row.logprobs == (-1.5, -3.0)
    assert row.argmax_ids == (5, 4)
    assert row.gaps == (0.25, 1.5)
    assert row.prompt_digest == ids_digest([7, 8])


@pytest.mark.parametrize(
    ("entries", "logprobs", "argmax", "gaps"),
    [
        ([None, None, None], (None, None), (-1, -1), (0.0, 0.0)),
        ([None, {}, entry((6, math.nan, 1))], (None, None), (-1, 6), (0.0, 0.0)),
        ([None, entry((9, -1.0, 1)), entry((6, -1.0, 1))], (None, -1.0), (9, 6), (0.0, 0.0)),
    ],
)
def test_numbers_that_are_missing(
    entries: list[Any], logprobs: tuple[Any, ...], argmax: tuple[int, ...], gaps: tuple[float, ...]
) -> None:
    row = row_of(RAW, raw(entries, [7, 5, 6]))
    assert (row.logprobs, row.argmax_ids, row.gaps) == (logprobs, argmax, gaps)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"usage": USAGE, "choices": []},
        raw([None, None], [7, 5, 6]),
        raw([None], [7]),
        {"usage": {}, "choices": [{}]},
    ],
)
def test_what_is_no_answer_raises_what_the_asker_catches(payload: dict[str, Any]) -> None:
    with pytest.raises((KeyError, IndexError, TypeError, ValueError)):
        row_of(RAW, payload)


def test_candidates_are_sorted_by_their_chance() -> None:
    top = {"token_id:9": -3.0, "token_id:4": -0.5}
    payload = {"usage": USAGE, "choices": [{"logprobs": {"top_logprobs": [top]}, "token_ids": [4]}]}
    row = row_of(Ask("x", FIRST_TOKEN, 1, {}, "/v1/completions"), payload)
    assert (row.top_ids, row.top_logprobs) == ((4, 9), (-0.5, -3.0))


def test_a_replay_takes_the_rank_of_the_token_itself() -> None:
    payload = raw(
        [None, entry((5, -2.0, 3), (1, -0.1, 1)), entry((6, -0.2, 1), (1, -3.0, 2))], [7, 5, 6]
    )
    assert replayed(payload, 2) == {"replay_logprobs": (-2.0, -0.2), "replay_ranks": (3, 1)}


def test_another_order_has_the_same_requests() -> None:
    asks = [Ask(str(n), "greedy", 1, {}, "/") for n in range(9)]
    assert ordered(asks, 0) == asks
    assert ordered(asks, 3) != asks
    assert sorted(ordered(asks, 3), key=lambda a: a.case_id) == asks
    assert ordered(asks, 3) == ordered(asks, 3)


def test_the_probes_are_in_the_packaged_set() -> None:
    cases = load_cases("builtin:core")
    probes = ProbeSet.of(cases)
    assert (len(probes.scored), len(probes.sampled)) == (16, 8)
    assert not any(case.tools or case.response_format for case in (*probes.scored, *probes.sampled))
    with pytest.raises(BadInput, match="lacks"):
        ProbeSet.of(cases[:3])


def test_seeds_of_samples_differ_between_checks_and_attempts() -> None:
    probes = ProbeSet.of(load_cases("builtin:core"))
    seeds = [
        ask.body["seed"] for name in ("c1", "c2") for ask in probes.sampling("chat", "s", name)
    ]
    assert len(set(seeds)) == len(seeds) == 32
