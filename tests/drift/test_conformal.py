"""P-values by rank: exact small cases, super-uniformity on a finite grid, and what ties do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.conformal import at_least, plain_p, upper_p


@pytest.mark.parametrize(
    ("value", "rank"), [(0.5, 4), (1.0, 4), (1.5, 3), (2.0, 3), (3.0, 1), (3.1, 0)]
)
def test_ties_count_as_reaching_it(value: float, rank: int) -> None:
    assert at_least(value, (1.0, 2.0, 2.0, 3.0)) == rank


def test_nothing_is_known_without_healthy_checks() -> None:
    assert at_least(5.0, ()) == 0
    assert plain_p(0, 0) == upper_p(0, 0) == 1.0


@settings(max_examples=40)
@given(st.integers(1, 60))
def test_the_plain_p_value_is_uniform_over_the_ranks(healthy: int) -> None:
    """Every rank is equally likely in health, so P(p <= k / (n + 1)) is exactly k / (n + 1)."""
    for k in range(1, healthy + 2):
        level = k / (healthy + 1)
        hits = sum(plain_p(rank, healthy) <= level + 1e-12 for rank in range(healthy + 1))
        assert Fraction(hits, healthy + 1) == Fraction(k, healthy + 1)


@settings(max_examples=40)
@given(st.integers(1, 400), st.data())
def test_the_conservative_one_lies_above_and_falls_with_the_rank(
    healthy: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, healthy - 1))
    assert plain_p(rank, healthy) < upper_p(rank, healthy) <= 1.0
    assert upper_p(rank, healthy) <= upper_p(rank + 1, healthy)


def test_more_healthy_checks_allow_smaller_p_values() -> None:
    assert upper_p(0, 2000) == pytest.approx(0.0023, abs=1e-4)
    assert upper_p(0, 200) > upper_p(0, 2000)


@pytest.mark.parametrize("rank", [-1, 11])
def test_a_rank_beyond_the_calibration_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="rank"):
        plain_p(rank, 10)
