"""Shares from samples: published values, hand-made tables, and what holds for every input."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from quality_lib.drift.rate import (
    Rate,
    chance_of_at_least,
    exceeds,
    hits_to_exceed,
    weighted_rate,
    wilson,
)


@pytest.mark.parametrize(
    ("hits", "rows", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(
    hits: int, rows: int, low: float, high: float
) -> None:
    assert list(wilson(hits, rows)) == pytest.approx([low, high], abs=1e-4)


def test_nothing_is_known_without_rows() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert weighted_rate(0, 0.0, 0.0, 0.0) is None


@given(st.integers(0, 400), st.integers(1, 400), st.sampled_from([0.001, 0.05, 0.3, 0.99]))
def test_the_exact_test_is_that_of_scipy(hits: int, rows: int, share: float) -> None:
    hits = min(hits, rows)
    expected = binomtest(hits, rows, share, alternative="greater").pvalue
    assert chance_of_at_least(hits, rows, share) == pytest.approx(expected, rel=1e-6, abs=1e-250)


@pytest.mark.parametrize(
    ("hits", "rows", "share", "chance"),
    [(0, 10, 0.05, 1.0), (1, 0, 0.05, 1.0), (3, 2, 0.5, 0.0), (1, 5, 0.0, 0.0), (5, 5, 1.0, 1.0)],
)
def test_the_ends_of_the_exact_test(hits: int, rows: int, share: float, chance: float) -> None:
    assert chance_of_at_least(hits, rows, share) == chance


def test_a_large_sample_neither_overflows_nor_takes_long() -> None:
    assert chance_of_at_least(60_000, 1_000_000, 0.05) < 1e-300
    assert chance_of_at_least(40_000, 1_000_000, 0.05) == pytest.approx(1.0)


def test_equal_weights_are_a_plain_share() -> None:
    rate = weighted_rate(rows=200, weight=2000.0, weight_squares=20_000.0, hit_weight=100.0)
    assert rate is not None
    assert (rate.share, rate.effective_rows) == (0.05, 200.0)
    assert (rate.low, rate.high) == wilson(10, 200)


def test_rows_count_for_as_many_as_they_stand_for() -> None:
    # 100 chat rows that stand for 10 each, all fine; 100 tool rows that stand for 1 each, all bad.
    rate = weighted_rate(200, 1100.0, 100 * 100.0 + 100.0, 100.0)
    assert rate is not None
    assert rate.share == pytest.approx(100 / 1100)
    assert rate.effective_rows == pytest.approx(1100**2 / 10_100)
    assert rate.low < rate.share < rate.high


def test_the_interval_of_a_stratified_sample_holds_its_level() -> None:
    """Sample two strata at different rates many times: the true share lies inside 95 of 100 times."""
    draw = random.Random(7)
    truth, inside, tries = (9000 * 0.03 + 1000 * 0.2) / 10_000, 0, 400
    for _ in range(tries):
        big = [draw.random() < 0.03 for _ in range(150)]
        small = [draw.random() < 0.2 for _ in range(50)]
        w_big, w_small = 9000 / 150, 1000 / 50
        rate = weighted_rate(
            200,
            150 * w_big + 50 * w_small,
            150 * w_big**2 + 50 * w_small**2,
            sum(big) * w_big + sum(small) * w_small,
        )
        assert rate is not None
        inside += rate.low <= truth <= rate.high
    assert inside / tries > 0.93


def rate_of(hits: int, rows: int) -> Rate:
    rate = weighted_rate(rows, float(rows), float(rows), float(hits))
    assert rate is not None
    return rate


@pytest.mark.parametrize(
    ("hits", "rows", "is_above"),
    [
        (0, 1000, False),
        (50, 1000, False),  # exactly the limit
        (60, 1000, False),  # above it, but so much happens by chance
        (75, 1000, True),
        (9, 50, True),
        (8, 50, False),
        (1, 1, False),  # one row proves nothing
        (3, 3, True),
    ],
)
def test_a_limit_is_exceeded_beyond_chance_only(hits: int, rows: int, is_above: bool) -> None:
    assert exceeds(rate_of(hits, rows), limit=0.05, false_alarm=0.001) is is_above


def test_false_alarms_at_the_limit_are_as_rare_as_promised() -> None:
    draw = random.Random(3)
    alarms = sum(
        exceeds(rate_of(sum(draw.random() < 0.05 for _ in range(200)), 200), 0.05, 0.05)
        for _ in range(2000)
    )
    assert alarms / 2000 <= 0.06


@pytest.mark.parametrize(("rows", "hits"), [(50, 9), (200, 22), (1, None), (2, None), (3, 3)])
def test_how_many_hits_prove_it(rows: int, hits: int | None) -> None:
    assert hits_to_exceed(rows, 0.05, 0.001) == hits
    if hits is not None:
        assert exceeds(rate_of(hits, rows), 0.05, 0.001)
        assert not exceeds(rate_of(hits - 1, rows), 0.05, 0.001)


@given(
    st.lists(st.tuples(st.floats(0.01, 1000), st.booleans()), min_size=1, max_size=60),
)
def test_any_weights_give_a_share_in_its_interval(rows: list[tuple[float, bool]]) -> None:
    rate = weighted_rate(
        len(rows),
        sum(w for w, _ in rows),
        sum(w * w for w, _ in rows),
        sum(w for w, hit in rows if hit),
    )
    assert rate is not None
    assert 0 <= rate.low <= rate.share + 1e-12
    assert rate.share <= rate.high + 1e-12
    assert rate.high <= 1
    assert rate.effective_rows <= len(rows)
    assert math.isfinite(rate.effective_rows)
