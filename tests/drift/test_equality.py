"""Scores bit for bit: what moved, and whether the server repeats itself."""

from __future__ import annotations

import math

from quality_lib.drift.equality import compare_bits
from tests.drift.readings import REFERENCE, check, probe

SCORED = probe()
ONE_BIT = tuple(
    math.nextafter(x, 0.0) if place == 3 else x
    for place, x in enumerate(SCORED.logprobs)
    if x is not None
)


def test_the_same_bits() -> None:
    found = compare_bits(REFERENCE, REFERENCE)
    assert (found.compared, dict(found.moved), found.repeats_itself) == (12, {}, True)


def test_the_last_bit_of_one_number_counts() -> None:
    found = compare_bits(check([probe(logprobs=ONE_BIT)]), REFERENCE)
    assert list(found.moved) == ["case0/chat_scored"]


def test_decoding_and_lost_answers_are_not_compared() -> None:
    greedy = probe(channel="greedy", logprobs=ONE_BIT)
    lost = probe("case1", problem="transport: reset")
    found = compare_bits(check([greedy, lost]), REFERENCE)
    assert (found.compared, dict(found.moved)) == (0, {})


def test_two_answers_that_differ_show_shared_batches() -> None:
    found = compare_bits(check([SCORED, probe(logprobs=ONE_BIT)]), REFERENCE)
    assert (dict(found.moved), found.repeats_itself) == ({}, False)


def test_moving_to_the_same_place_again() -> None:
    first = compare_bits(check([probe(logprobs=ONE_BIT)]), REFERENCE)
    same = compare_bits(check([probe(logprobs=ONE_BIT)], "again"), REFERENCE)
    other = compare_bits(check([probe(logprobs=(-9.0, *ONE_BIT[1:]))]), REFERENCE)
    assert same.same_as(first.moved)
    assert not other.same_as(first.moved)
    assert not same.same_as({})
