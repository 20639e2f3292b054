"""The noise band of a mean over cases, from repeated healthy runs of the same cases. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Band:
    """Where the mean over cases of a further healthy run lies."""

    mean: float
    """Mean over cases and healthy runs."""
    half_width: float
    runs: int
    cases: int

    @property
    def low(self) -> float:
        """Lower edge."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper edge."""
        return self.mean + self.half_width


def paired_band(values: Sequence[Sequence[float]], sigmas: float, floor: float) -> Band | None:
    """Return the band of one statistic, or None without a case or with fewer than two runs.

    ``values[i][r]`` is the value of case *i* in healthy run *r*. The variance is taken within each
    case and pooled, so that easy and hard cases do not widen the band and three runs of a hundred
    cases give two hundred degrees of freedom. A further run's mean differs from the healthy mean by
    ``sqrt(sum(var_i)) / n * sqrt(1 + 1/R)`` in standard error (prediction of one more run, two-way
    layout with fixed cases). Cases move together under load, which this formula does not see;
    ``sigmas`` (default 6) and the absolute ``floor`` leave room for that.
    """
    runs = min((len(row) for row in values), default=0)
    if not values or runs < 2:
        return None
    cases = len(values)
    means = [sum(row[:runs]) / runs for row in values]
    variances = [
        sum((x - mean) ** 2 for x in row[:runs]) / (runs - 1)
        for row, mean in zip(values, means, strict=True)
    ]
    error = math.sqrt(sum(variances)) / cases * math.sqrt(1 + 1 / runs)
    return Band(
        mean=sum(means) / cases, half_width=max(sigmas * error, floor), runs=runs, cases=cases
    )


def most_falls(values: Sequence[Sequence[float]], false_alarm: float) -> int:
    """Return how many cases of a further healthy run may lie below all their healthy values.

    ``values[i][r]`` is the value of case *i* in healthy run *r*. Each healthy value is held against
    the other runs of its case, which shows how often a healthy case falls; a further run's count
    then follows the beta-binomial predictive distribution under Jeffreys' prior (Gelman et al.,
    Bayesian Data Analysis, 2.4 and 2.8), and more than the returned number has a chance of at most
    ``false_alarm``. Healthy runs without one fall do not show that there are none: of one case
    nothing can be said, of four three may fall and of a hundred still four (at 0.001, three runs).
    """
    cases = len(values)
    trials = sum(len(row) for row in values)
    fell = sum(fallen(row[r], [*row[:r], *row[r + 1 :]]) for row in values for r in range(len(row)))
    a, b = fell + 0.5, trials - fell + 0.5
    tail = 0.0
    for count in range(cases, 0, -1):
        tail += math.exp(
            math.lgamma(cases + 1)
            - math.lgamma(count + 1)
            - math.lgamma(cases - count + 1)
            + _log_beta(count + a, cases - count + b)
            - _log_beta(a, b)
        )
        if tail > false_alarm:
            return count
    return 0


def falls_of(pairs: Sequence[tuple[float, Sequence[float]]], false_alarm: float) -> tuple[int, int]:
    """Return how many values lie below all healthy ones of their case, and how many chance lets fall."""
    fell = sum(fallen(value, healthy) for value, healthy in pairs)
    return fell, most_falls([healthy for _, healthy in pairs], false_alarm)


def fallen(value: float, healthy: Sequence[float]) -> bool:
    """Whether a value lies below every healthy one by more than rounding."""
    return bool(healthy) and value < min(healthy) - 1e-6


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
