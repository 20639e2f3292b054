"""Exact facts: what breaks them, and healthy look-alikes that do not."""

from __future__ import annotations

import math

import pytest

from quality_lib.drift.contract import breaches
from quality_lib.drift.reading import ProbeReading
from tests.drift.readings import REFERENCE, check, probe

SCORED = probe()
NUMBERS = tuple(x for x in SCORED.logprobs if x is not None)


def codes(now: ProbeReading) -> list[str]:
    return [b.code for b in breaches(check([now]), REFERENCE)]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (probe(prompt_tokens=41), ["prompt_tokens"]),
        (probe(prompt_digest="other"), ["prompt_digest"]),
        (probe(prompt_tokens=41, prompt_digest="other"), ["prompt_tokens"]),
        (probe(token_ids=(*SCORED.token_ids[:-1], 5)), ["scored_tokens"]),
        (probe(problem="400: too long"), ["refused"]),
        (probe(logprobs=()), ["logprobs_missing"]),
        (probe(logprobs=NUMBERS[:-1]), ["logprobs_count"]),
        (probe(logprobs=(*NUMBERS[:-1], None)), ["logprob_null"]),
        (probe(logprobs=(*NUMBERS[:-1], math.nan)), ["logprob_not_finite"]),
        (probe(logprobs=(*NUMBERS[:-1], -math.inf)), ["logprob_not_finite"]),
        (probe(logprobs=(0.5, *NUMBERS[1:])), ["logprob_above_zero"]),
        (probe(finish_reason="abort"), ["finish_reason"]),
        (probe(finish_reason="stop"), ["finish_reason"]),
        (probe(logprobs=(-10.3,) * 8), ["flat_distribution"]),
        (probe(channel="greedy", token_ids=(0,) * 8), ["token_zero_run"]),
        (
            probe(channel="greedy", token_ids=(5,) * 16, logprobs=(-0.1,) * 16),
            ["constant_output"],
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_breaks(now: ProbeReading, expected: list[str]) -> None:
    assert codes(now) == expected


@pytest.mark.parametrize(
    "now",
    [
        SCORED,
        probe(logprobs=tuple(x - 0.3 for x in NUMBERS)),
        probe(prompt_tokens=None, prompt_digest=None, finish_reason=None),
        probe(problem="transport: connection reset", token_ids=(), logprobs=()),
        probe(logprobs=(1e-7, *NUMBERS[1:])),
        probe(logprobs=(-9.0, -7.5, *NUMBERS[2:])),
        probe(channel="greedy", token_ids=(0, 0, 5, 0, 0, 0, 7, 0)),
        probe(channel="greedy", token_ids=(1, 2), logprobs=(-0.1, -0.2), finish_reason="stop"),
        probe("case99", problem="404"),
    ],
    ids=[
        "same", "moved", "not_told", "lost", "rounding_above_zero", "unlikely_tokens",
        "some_zeros", "forked_and_stopped", "not_of_the_reference",
    ],
)  # fmt: skip
def test_what_does_not_break(now: ProbeReading) -> None:
    assert codes(now) == []


def test_what_the_reference_shows_too_breaks_nothing() -> None:
    zeros = probe(channel="greedy", token_ids=(0,) * 20, logprobs=(-0.1,) * 20)
    flat = probe(logprobs=(-10.3,) * 8)
    hole = probe("case1", logprobs=(None, *NUMBERS[1:]))
    both = check([zeros, flat, hole])
    assert breaches(both, both) == ()


def test_only_garbage_is_called_so() -> None:
    found = breaches(
        check([probe(prompt_tokens=41), probe(channel="greedy", token_ids=(0,) * 8)]), REFERENCE
    )
    assert [(b.code, b.is_garbage) for b in found] == [
        ("prompt_tokens", False),
        ("token_zero_run", True),
    ]
    assert "41 tokens" in found[0].sentence
