"""A rolling z-test on what the server itself reports: the dashboard alert that most teams have."""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, mean, spread
from bench.matrix.recording import Check

WINDOW = 24
"""Checks: a day of hourly ones."""
OWN_RULE = 3.0


def learn(healthy: Sequence[Check]) -> Scorer:
    """Take the last day of healthy checks as the window; faulty checks never enter it."""
    known = [told for check in healthy[-WINDOW:] if (told := confidence(check)) is not None]
    centre, deviation = mean(known), spread(known)

    def score(check: Check) -> float | None:
        told = confidence(check)
        return None if told is None or centre is None else abs(told - centre) / deviation

    return score


def confidence(check: Check) -> float | None:
    """Return the mean log-probability that the server reports for its greedy answers."""
    return mean([lp for row in check.of("greedy") for lp in row.logprobs if lp is not None])


METHOD = Method(
    "rolling z-test", ("greedy",), learn, "common practice: 3 sigma over a day", own_rule=OWN_RULE
)
