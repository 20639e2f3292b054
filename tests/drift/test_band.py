"""The noise band holds what healthy repeats do and nothing much wider."""

from __future__ import annotations

import random

import pytest

from quality_lib.drift.band import fallen, most_falls, paired_band


def test_without_runs_or_cases_there_is_no_band() -> None:
    assert paired_band([], 6, 0.0) is None
    assert paired_band([[1.0], [0.5]], 6, 0.0) is None


def test_equal_runs_give_the_floor() -> None:
    band = paired_band([[1.0, 1.0, 1.0], [0.2, 0.2, 0.2]], 6, 0.02)
    assert band is not None
    assert band.mean == pytest.approx(0.6)
    assert band.half_width == pytest.approx(0.02)
    assert band.low == pytest.approx(0.58)
    assert band.high == pytest.approx(0.62)


def test_hard_and_easy_cases_do_not_widen_the_band() -> None:
    spread = paired_band([[0.1, 0.1, 0.1], [0.9, 0.9, 0.9]], 6, 0.0)
    assert spread is not None
    assert spread.half_width == pytest.approx(0.0, abs=1e-12)


def test_further_healthy_runs_stay_inside_and_a_real_drop_does_not() -> None:
    """The false-alarm share of the 6-sigma band over 2000 healthy runs is zero."""
    rng = random.Random(7)
    cases = [rng.uniform(0.5, 1.0) for _ in range(120)]

    def run() -> list[float]:
        return [min(1.0, max(0.0, mean + rng.gauss(0, 0.05))) for mean in cases]

    runs = [run() for _ in range(3)]
    band = paired_band(list(zip(*runs, strict=True)), 6, 0.0)
    assert band is not None
    means = [sum(values) / len(values) for values in (run() for _ in range(2000))]
    assert all(band.low <= mean <= band.high for mean in means)
    assert sum(run()) / len(cases) - 0.05 < band.low


@pytest.mark.parametrize(
    ("cases", "runs", "most"), [(1, 2, 1), (2, 3, 2), (4, 2, 3), (4, 3, 3), (20, 3, 3), (100, 3, 4)]
)
def test_healthy_runs_without_a_fall_still_allow_some(cases: int, runs: int, most: int) -> None:
    assert most_falls([[1.0] * runs] * cases, 1e-3) == most


def test_cases_that_fall_in_health_allow_more_falls() -> None:
    steady = [[1.0, 1.0, 1.0]] * 40
    restless = [[1.0, 0.7, 1.0]] * 10 + steady[10:]
    assert most_falls(restless, 1e-3) > most_falls(steady, 1e-3)


def test_the_count_of_falls_keeps_its_promise() -> None:
    """Over healthy servers that flip up to 5 % of their cases, fewer than 1 in 100 runs exceed it."""
    rng = random.Random(3)
    exceeded = 0
    for _ in range(2000):
        rate = rng.uniform(0, 0.05)
        values = [[float(rng.random() >= rate) for _ in range(3)] for _ in range(20)]
        now = [float(rng.random() >= rate) for _ in range(20)]
        falls = sum(fallen(x, row) for x, row in zip(now, values, strict=True))
        exceeded += falls > most_falls(values, 1e-3)
    assert exceeded < 20
