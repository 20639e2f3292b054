"""Where a change probably sits."""

from __future__ import annotations

import math

import pytest

from quality_lib.drift.attribution import moved_channels, shifted_channels, suspect
from quality_lib.drift.contract import Breach
from quality_lib.drift.healthy import Healthy, folds
from quality_lib.drift.paired import Pair
from quality_lib.drift.reading import Key

HEALTHY = Healthy(200, 200, folds(0.02), 1.0, 0.0, 1.0, 0.002, 0.01)
CHANNELS = ("chat_scored", "raw_scored", "greedy", "seeded", "long_context")
KNOWN: dict[Key, Healthy] = {(f"c{n}", channel): HEALTHY for channel in CHANNELS for n in range(8)}


def pairs(forks: str = "", probes: int = 8, **deltas: float) -> list[Pair]:
    return [
        Pair(
            key,
            deltas.get(key[1], 0.02) if int(key[0][1:]) < probes else 0.02,
            None,
            2 if key[1] == forks else None,
            24,
        )
        for key in KNOWN
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (pairs(chat_scored=0.2), "template"),
        (pairs(chat_scored=0.2, raw_scored=0.2), "quantisation"),
        (pairs(raw_scored=0.2), "quantisation"),
        (pairs(chat_scored=10.3, raw_scored=10.3), "destroyed weight"),
        (pairs(chat_scored=0.3, raw_scored=0.3, probes=1), "few prompts"),
        (pairs(greedy=0.2), "KV cache, penalties"),
        (pairs(forks="greedy"), "KV cache, penalties"),
        (pairs(forks="seeded"), "sampler"),
        (pairs(long_context=0.2), "long context"),
        (pairs(long_context=0.2, greedy=0.2), "KV cache, penalties"),
        (pairs(), None),
        ([], None),
    ],
)
def test_by_the_channels_that_moved(found: list[Pair], words: str | None) -> None:
    said = suspect(found, KNOWN, ())
    assert said is None if words is None else words in str(said)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("prompt_tokens", "template"),
        ("scored_tokens", "template"),
        ("flat_distribution", "destroyed weight"),
        ("token_zero_run", "NaN"),
        ("constant_output", "one token"),
        ("refused", "refuses"),
        ("finish_reason", "configuration"),
    ],
)
def test_by_the_facts_that_broke(code: str, words: str) -> None:
    assert words in str(suspect(pairs(), KNOWN, [Breach(code, "c0", "greedy", "…")]))


def test_one_fork_that_health_shows_too_is_no_movement() -> None:
    found = pairs()
    found[16] = Pair(("c0", "greedy"), 0.02, None, 5, 24)
    assert moved_channels(found, KNOWN) == frozenset()


def test_a_chat_channel_alone_says_nothing_of_the_template() -> None:
    known = {key: value for key, value in KNOWN.items() if key[1] == "chat_scored"}
    found = [Pair(key, math.inf, None, None, 24) for key in known]
    assert "template" not in str(suspect(found, known, ()))


def test_a_small_movement_of_many_prompts_points_too() -> None:
    """Each prompt moved 2.5 times as far as usual, which one alone may do."""
    found = pairs(chat_scored=0.05, raw_scored=0.05)
    assert moved_channels(found, KNOWN) == frozenset()
    assert shifted_channels(found, KNOWN) == {"chat_scored", "raw_scored"}
    assert "weights" in str(suspect(found, KNOWN, ()))


def test_movements_in_one_direction_point_too() -> None:
    found = [
        Pair(key, 0.02, -0.02 if key[1] == "greedy" else 0.01 * (-1) ** n, None, 24)
        for n, key in enumerate(KNOWN)
    ]
    assert shifted_channels(found, KNOWN) == {"greedy"}
