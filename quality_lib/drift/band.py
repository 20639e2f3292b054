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
