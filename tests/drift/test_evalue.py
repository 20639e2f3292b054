"""E-values are fair bets: their mean in health is at most 1, whatever is missing or dependent."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.conformal import plain_p
from quality_lib.drift.evalue import (
    WEIGHTS,
    beta_e,
    calibrator,
    combine,
    fair_scale,
    rank_e,
)
from quality_lib.drift.paired import Statistic

ALL = frozenset(WEIGHTS)


def test_the_calibrator_by_hand() -> None:
    assert calibrator(1.0) == pytest.approx((0.05 + 0.1 + 0.2 + 0.4 + 0.8) / 5)
    assert calibrator(0.0023) == pytest.approx(16.7, abs=0.1)


@settings(max_examples=30)
@given(st.integers(1, 5000))
def test_the_calibrator_is_fair_on_any_grid(points: int) -> None:
    """It falls, so its mean over the right ends of a grid stays below its integral, which is 1."""
    mean = math.fsum(calibrator((k + 1) / points) for k in range(points)) / points
    assert mean <= 1.0


def test_its_integral_is_one() -> None:
    """Substituting p = u^50 takes the pole out: kappa * p^(kappa-1) dp = 50 kappa u^(50 kappa - 1) du."""
    steps = 20_000
    total = 0.0
    for step in range(steps):
        u = (step + 0.5) / steps
        total += calibrator(max(u**50, 1e-300)) * 50 * u**49
    assert total / steps == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_what_is_no_p_value_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="p-value"):
        calibrator(p)


@settings(max_examples=30)
@given(st.integers(1, 80))
def test_rank_e_values_are_fair_on_average_over_calibrations(healthy: int) -> None:
    """Over calibrations every rank is equally likely; fairness given one is stronger, see below."""
    plain = [calibrator(plain_p(rank, healthy)) for rank in range(healthy + 1)]
    assert math.fsum(plain) <= healthy + 1
    assert all(
        rank_e(rank, healthy, 0.01) >= rank_e(rank + 1, healthy, 0.01) for rank in range(healthy)
    )


@pytest.mark.parametrize("healthy", [20, 200, 1000])
def test_few_calibrations_are_unfair(healthy: int) -> None:
    """Given the calibration the mean is above 1 for at most 5 in 100 of them (spacings are drawn)."""
    rng = random.Random(healthy)
    risk, unfair, draws = 0.05, 0, 400
    e = [rank_e(rank, healthy, risk) for rank in range(healthy + 1)]
    for _ in range(draws):
        spacings = [rng.expovariate(1.0) for _ in e]
        mean = math.fsum(s * x for s, x in zip(spacings, e, strict=True)) / math.fsum(spacings)
        unfair += mean > 1.0
    # Chernoff's bound promises 5 %; twice that would be 5 standard errors off.
    assert unfair <= 2 * risk * draws


def test_the_scale_is_not_wasted() -> None:
    """With a hundredth more than the scale, the bound breaks: it is the largest, not just a safe one."""
    assert fair_scale(2000, 0.002) == pytest.approx(1.005, abs=0.01)
    assert rank_e(0, 2000, 0.002) > 3 * beta_e(0, 2000)


@settings(max_examples=30)
@given(st.integers(5, 400))
def test_less_risk_costs_evidence(healthy: int) -> None:
    assert fair_scale(healthy, 0.001) <= fair_scale(healthy, 0.05)


@pytest.mark.parametrize("wrong", [(-1, 0.01), (10, 0.0), (10, 1.0)])
def test_a_scale_needs_a_count_and_a_risk(wrong: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="risk"):
        fair_scale(*wrong)


def test_the_weights_sum_to_one() -> None:
    assert math.fsum(WEIGHTS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("found", "known", "expected"),
    [
        (dict.fromkeys(Statistic, 4.0), ALL, 4.0),
        ({Statistic.MEAN_Z: 10.0}, ALL, 3.5),
        ({Statistic.MEAN_Z: 10.0}, frozenset({Statistic.MEAN_Z}), 10.0),
        ({Statistic.MEAN_Z: 10.0, Statistic.MAX_Z: None}, ALL, 3.5),
        ({Statistic.MEAN_Z: None}, ALL, None),
        ({}, ALL, None),
        ({Statistic.FORKS: 9.0}, frozenset({Statistic.MEAN_Z}), None),
    ],
)
def test_statistics_are_averaged_by_weight(
    found: dict[Statistic, float | None], known: frozenset[Statistic], expected: float | None
) -> None:
    result = combine(found, known)
    assert result == (None if expected is None else pytest.approx(expected))


@settings(max_examples=30)
@given(
    st.dictionaries(st.sampled_from(list(Statistic)), st.floats(0, 100), min_size=2),
    st.data(),
)
def test_a_missing_statistic_never_raises_the_evidence(
    found: dict[Statistic, float | None], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(found)))
    fewer = combine({**found, gone: None}, ALL)
    whole = combine(found, ALL)
    assert whole is not None
    assert fewer is None or fewer <= whole + 1e-12
