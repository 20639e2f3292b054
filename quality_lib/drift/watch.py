"""The watch line: a CUSUM beside the decision, quicker for slight shifts, that never pages. Pure.

Its run length is known only while mean and spread of health stay what they were (detection anchors,
4.3.8), so it is shown and nobody is woken by it.
"""

from __future__ import annotations

import math
from functools import lru_cache

SLACK = 0.5
"""Half of the shift, in standard deviations, that it is tuned to."""
_OVERSHOOT = 1.166
"""Siegmund 1985: the correction of a continuous boundary for discrete steps, twice 0.583."""


def watch_step(level: float, standardised: float) -> float:
    """Return the next level of the one-sided CUSUM (Page, Biometrika 41, 1954)."""
    return max(0.0, level + standardised - SLACK)


@lru_cache(maxsize=64)
def watch_limit(checks_per_year: float, alarms_per_year: float) -> float:
    """Return the level that healthy Gaussian checks reach so many times a year.

    Siegmund's approximation (Sequential Analysis, 1985, 2.6): a run length of
    ``(exp(2 k b) - 2 k b - 1) / (2 k^2)`` with ``b = level + 1.166`` and slack ``k``.
    """
    wanted = checks_per_year / alarms_per_year
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if run_length(middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def run_length(limit: float) -> float:
    """Return how many healthy Gaussian checks pass, on average, until the limit is reached."""
    way = 2 * SLACK * (limit + _OVERSHOOT)
    return (math.expm1(way) - way) / (2 * SLACK**2)
