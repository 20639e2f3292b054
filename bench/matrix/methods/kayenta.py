"""Mann-Whitney as in Kayenta's canary analysis: do the prompts' confidences come from another distribution?

Control: the healthy checks. Experiment: one check. Kayenta calls a metric bad when the 98 % confidence interval of the
shift (Hodges and Lehmann's) lies as a whole beyond a tolerance of a quarter of the shift's estimate. The interval is the
test turned round, so that is the same as a test of the experiment with the tolerance taken back, and ``-log10 p`` of
that test is the score. Re-implemented from the description.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, mean
from bench.matrix.recording import Check

CONFIDENCE = 0.98
TOLERANCE = 0.25
"""Of the estimated shift; less than that does not matter."""
CONTROL = 24
"""Healthy checks in the control group: a day."""
LEAST_P = 1e-300


def learn(healthy: Sequence[Check]) -> Scorer:
    """Pool the last day of healthy checks as the control group."""
    control = [value for check in healthy[-CONTROL:] for value in confidences(check)]

    def score(check: Check) -> float | None:
        own = confidences(check)
        return -math.log10(max(LEAST_P, tolerant_p(own, control))) if own and control else None

    return score


def tolerant_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value of a shift beyond the tolerance."""
    allowed = TOLERANCE * shift_of(one, other)
    return mann_whitney_p([value - allowed for value in one], other)


def shift_of(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Hodges and Lehmann's estimate: the median of all differences between the groups."""
    return statistics.median(a - b for a in one for b in other)


def confidences(check: Check) -> list[float]:
    """Return the mean reported log-probability of each greedy answer."""
    told = [mean([lp for lp in row.logprobs if lp is not None]) for row in check.of("greedy")]
    return [value for value in told if value is not None]


def mann_whitney_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value by the normal approximation, with ties and continuity corrected."""
    n, m = len(one), len(other)
    pool = sorted([(v, 0) for v in one] + [(v, 1) for v in other])
    ranks_of_one, ties, start = 0.0, 0.0, 0
    while start < len(pool):
        end = start
        while end < len(pool) and pool[end][0] == pool[start][0]:
            end += 1
        rank = (start + 1 + end) / 2
        ranks_of_one += rank * sum(side == 0 for _, side in pool[start:end])
        ties += (end - start) ** 3 - (end - start)
        start = end
    u = ranks_of_one - n * (n + 1) / 2
    whole = n + m
    variance = n * m / 12 * (whole + 1 - ties / (whole * (whole - 1))) if whole > 1 else 0.0
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


METHOD = Method(
    "Mann-Whitney, as Kayenta",
    ("greedy",),
    learn,
    "Kayenta's canary judge, confidence 0.98",
    own_rule=-math.log10(1 - CONFIDENCE),
)
