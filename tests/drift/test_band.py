"""The noise band holds what healthy repeats do and nothing much wider."""

from __future__ import annotations

import random

import pytest

from quality_lib.drift.band import paired_band


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
