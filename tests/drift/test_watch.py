"""The watch line: CUSUM steps, and its level for a wanted run length."""

from __future__ import annotations

import random

import pytest

from quality_lib.drift.watch import run_length, watch_limit, watch_step


@pytest.mark.parametrize(
    ("level", "x", "after"), [(0.0, 0.0, 0.0), (0.0, 2.0, 1.5), (3.0, -1.0, 1.5), (1.0, 0.5, 1.0)]
)
def test_steps(level: float, x: float, after: float) -> None:
    assert watch_step(level, x) == pytest.approx(after)


def test_the_level_of_ten_years() -> None:
    """Detection anchors, 4.3: k = 0.5 and h = 9.52 for one alarm in 87,600 checks."""
    assert watch_limit(87_600, 1.0) == pytest.approx(9.52, abs=0.01)


def test_published_run_lengths() -> None:
    """Montgomery, Introduction to Statistical Quality Control, table 9.3: one-sided, k = 0.5."""
    assert run_length(4.0) == pytest.approx(336, rel=0.02)
    assert run_length(5.0) == pytest.approx(930, rel=0.02)


def test_healthy_checks_cross_it_about_as_often_as_promised() -> None:
    rng = random.Random(2)
    limit, lengths = watch_limit(200, 1.0), []
    for _ in range(200):
        level, steps = 0.0, 0
        while level < limit:
            level = watch_step(level, rng.gauss(0, 1))
            steps += 1
        lengths.append(steps)
    # The mean of 200 nearly exponential lengths: 7 % standard error.
    assert 140 < sum(lengths) / len(lengths) < 270
