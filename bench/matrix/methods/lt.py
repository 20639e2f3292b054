"""LT, log-probability tracking (Chauvin et al., ICLR 2026): the best candidates for the first token after ``x``.

The statistic is the mean over the tokens of the |difference of the mean log-probabilities|. A token that one sample
lacks counts with that sample's smallest value. Re-implemented from the description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import FIRST_TOKEN, Check

Sample = Mapping[int, float]
REFERENCE_CHECKS = 50


def learn(healthy: Sequence[Check]) -> Scorer:
    """Take every healthy sample as the reference side."""
    reference = [sample for check in healthy[:REFERENCE_CHECKS] for sample in samples_of(check)]

    def score(check: Check) -> float | None:
        own = samples_of(check)
        return distance(own, reference) if own and reference else None

    return score


def samples_of(check: Check) -> list[Sample]:
    """Return the candidates of each first token of a check."""
    return [
        dict(zip(row.top_ids, row.top_logprobs, strict=True))
        for row in check.of(FIRST_TOKEN)
        if row.top_ids
    ]


def distance(own: Sequence[Sample], reference: Sequence[Sample]) -> float:
    """Return the statistic between two sides."""
    tokens = {token for sample in (*own, *reference) for token in sample}
    return sum(abs(_mean(own, t) - _mean(reference, t)) for t in tokens) / len(tokens)


def _mean(samples: Sequence[Sample], token: int) -> float:
    return sum(s.get(token, min(s.values())) for s in samples) / len(samples)


METHOD = Method("LT", (FIRST_TOKEN,), learn, "Chauvin et al., arXiv 2512.03816")
