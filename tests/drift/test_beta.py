"""Quantiles of the beta distribution agree with scipy's, and their ends are what they must be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from quality_lib.drift.beta import beta_cdf, beta_quantile


@settings(max_examples=40)
@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 3000), st.floats(0.5, 3000))
def test_the_distribution_is_that_of_scipy(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(beta.cdf(x, a, b), rel=1e-8, abs=1e-12)


@settings(max_examples=40)
@given(st.integers(0, 300), st.integers(1, 2000), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_quantile_gives_its_chance_back(rank: int, rest: int, chance: float) -> None:
    found = beta_quantile(chance, rank + 1, rest)
    assert beta_cdf(found, rank + 1, rest) == pytest.approx(chance, rel=1e-9)


def test_the_largest_of_n_has_a_closed_form() -> None:
    """P(Beta(1, n) <= x) = 1 - (1 - x)^n: detection anchors give 0.0023 at n = 2000."""
    assert beta_quantile(0.99, 1, 2000) == pytest.approx(1 - 0.01 ** (1 / 2000), rel=1e-9)


@pytest.mark.parametrize(("x", "expected"), [(-1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (2.0, 1.0)])
def test_the_ends(x: float, expected: float) -> None:
    assert beta_cdf(x, 2, 3) == expected


@pytest.mark.parametrize("wrong", [(0.5, 0, 1), (0.5, 1, -1)])
def test_parameters_must_be_positive(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        beta_cdf(*wrong)


@pytest.mark.parametrize("chance", [0.0, 1.0, -0.1])
def test_a_quantile_needs_a_chance(chance: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        beta_quantile(chance, 1, 1)
