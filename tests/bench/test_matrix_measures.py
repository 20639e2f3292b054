"""The measures of the matrix, checked by hand and against scipy's quantiles."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.matrix.measures import (
    LEAST_P,
    auc,
    cleaned,
    delay,
    hits,
    partial_auc,
    rounded,
    tail_p,
    threshold,
    tokens_to,
)


def test_enough_healthy_checks_give_a_quantile() -> None:
    found = threshold([float(n) for n in range(1000)], 0.01)
    assert (found.value, found.is_extrapolated, found.healthy) == (989.0, False, 1000)
    assert hits([float(n) for n in range(1000)], found.value) == 10


def test_scores_that_never_vary_have_no_tail() -> None:
    found = threshold([0.0] * 50)
    assert (found.value, found.is_extrapolated) == (0.0, True)
    assert hits([1e-12], found.value) == 1


def test_a_continued_tail_lies_above_everything_seen_and_holds_its_rate() -> None:
    draws = random.Random(1)
    rate, false, asked = 1e-3, 0, 0
    for _ in range(60):
        healthy = [draws.expovariate(1.0) for _ in range(200)]
        found = threshold(healthy, rate)
        assert found.is_extrapolated
        assert found.value >= max(healthy)
        false += hits([draws.expovariate(1.0) for _ in range(1000)], found.value)
        asked += 1000
    assert false / asked <= rate


def test_a_rarer_alarm_has_a_higher_threshold() -> None:
    draws = random.Random(2)
    healthy = [draws.gauss(0, 1) for _ in range(100)]
    assert threshold(healthy, 1e-5).value > threshold(healthy, 1e-3).value


@pytest.mark.parametrize("healthy", [[], [1.0], [1.0, 2.0], [0.0, 0.0, math.inf]])
def test_few_or_wild_healthy_scores_give_no_nonsense(healthy: list[float]) -> None:
    found = threshold(healthy)
    assert not math.isnan(found.value)
    assert found.value >= max(healthy, default=math.inf)


@pytest.mark.parametrize(
    ("bad", "healthy", "expected"),
    [
        ([2.0] * 4, [1.0] * 400, 1.0),
        ([1.0] * 4, [1.0] * 400, 0.5),
        ([0.0] * 4, [1.0] * 400, 0.5 * (1 - 0.0000125 / (0.005 - 0.0000125))),
        ([], [1.0], None),
        # Half of the faults lie above every healthy score, the others below.
        ([2.0, 0.0], [1.0] * 400, 0.5 * (1 + (0.0025 - 0.0000125) / (0.005 - 0.0000125))),
    ],
)
def test_partial_auc(bad: list[float], healthy: list[float], expected: float | None) -> None:
    found = partial_auc(bad, healthy)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


def test_the_partial_area_looks_at_rare_alarms_alone() -> None:
    """Most healthy scores are low, one in a hundred is higher than every fault."""
    healthy = [0.0] * 990 + [5.0] * 10
    faults = [1.0] * 100
    whole, part = auc(faults, healthy), partial_auc(faults, healthy)
    assert whole == pytest.approx(0.99)
    assert part is not None
    assert part < 0.51


@pytest.mark.parametrize(
    ("areas", "expected"),
    [
        ({10: 0.9, 20: 0.9995, 40: 1.0}, 20),
        ({10: 1.0, 20: 0.9, 40: 1.0}, 40),
        ({10: 0.5, 20: 0.6}, None),
        ({10: 1.0, 20: None}, None),
        ({}, None),
    ],
)
def test_tokens_to(areas: dict[int, float | None], expected: int | None) -> None:
    assert tokens_to(areas) == expected


@pytest.mark.parametrize(
    ("found", "asked", "p50", "p99"), [(10, 10, 1.0, 1.0), (5, 10, 1.0, 7.0), (1, 10, 7.0, 44.0), (0, 10, None, None)]
)  # fmt: skip
def test_delay(found: int, asked: int, p50: float | None, p99: float | None) -> None:
    told = delay(found, asked)
    assert (told["p50"], told["p99"]) == (p50, p99)


def test_missing_scores_are_counted_and_infinite_ones_kept() -> None:
    assert cleaned([1.0, None, math.nan, math.inf]) == ([1.0, math.inf], 2)
    assert rounded(math.inf) == "inf"
    assert rounded(None) is None
    assert rounded(1.23456) == 1.2346


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=200),
    st.lists(st.floats(-20, 200), min_size=2, max_size=20),
)
def test_a_larger_value_is_never_less_rare(healthy: list[float], values: list[float]) -> None:
    ordered = sorted(healthy)
    found = [tail_p(value, ordered, 1e-3) for value in sorted(values)]
    assert found == sorted(found, reverse=True)
    assert all(0 < p <= 1 for p in found)


def test_the_tail_goes_on_beyond_what_was_seen() -> None:
    ordered = [n / 100 for n in range(100)]
    # The upper tenth lies 0.05 above 0.9 on average; ten times that is e^-10.
    base, scale = ordered[90], 0.05
    assert tail_p(base + 10 * scale, ordered, 1e-3) == pytest.approx(
        10 / 101 * math.exp(-10), rel=1e-6
    )
    assert tail_p(ordered[50], ordered, 1e-3) == 51 / 101
    assert tail_p(1.0, [], 1e-3) == 1.0
    assert tail_p(math.inf, [0.0] * 50, 1e-3) == LEAST_P
