"""The product's primary number alone: how far the log-probabilities of stored answers have moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, pairs
from bench.matrix.recording import SCORED, Check, Row


def learn(healthy: Sequence[Check]) -> Scorer:
    """Compare with the first healthy check."""
    return lambda check: scored_delta(check, healthy[0])


def scored_delta(check: Check, reference: Check) -> float | None:
    """Return the mean |difference| in nats per token; infinite when the server lost a token or an answer."""
    if check.missing(*SCORED):
        return math.inf
    found = [moved(row, other) for row, other in pairs(check, reference, *SCORED)]
    return sum(found) / len(found) if found else None


def moved(row: Row, other: Row) -> float:
    """Return the mean |difference| of one stored answer."""
    if row.token_ids != other.token_ids or len(row.logprobs) != len(other.logprobs):
        return math.inf
    differences = []
    for now, then in zip(row.logprobs, other.logprobs, strict=True):
        if now is None or then is None:
            if now is not then:
                return math.inf
            continue
        differences.append(abs(now - then))
    return sum(differences) / len(differences) if differences else 0.0


METHOD = Method(
    "scored delta", SCORED, learn, "primary statistic of this product, without its other layers"
)
