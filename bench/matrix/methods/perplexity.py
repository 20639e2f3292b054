"""Perplexity of sampled answers under the healthy model, as a two-sided z-score."""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, mean, spread
from bench.matrix.recording import SAMPLED, Check


def learn(healthy: Sequence[Check]) -> Scorer:
    """Learn mean and spread of the checks' mean surprise."""
    known = [told for check in healthy if (told := surprise(check)) is not None]
    centre, deviation = mean(known), spread(known)

    def score(check: Check) -> float | None:
        told = surprise(check)
        return None if told is None or centre is None else abs(told - centre) / deviation

    return score


def surprise(check: Check) -> float | None:
    """Return the mean negative log-probability of a check's sampled tokens under the healthy model."""
    told = [-lp for row in check.of(SAMPLED) for lp in row.replay_logprobs if lp is not None]
    return mean(told)


METHOD = Method(
    "perplexity z", (SAMPLED,), learn, "common practice, with the healthy model as judge"
)
