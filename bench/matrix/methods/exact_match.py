"""Exact match of greedy answers, the rule that most golden sets have."""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, pairs
from bench.matrix.recording import Check


def learn(healthy: Sequence[Check]) -> Scorer:
    """Compare with the first healthy check."""
    return lambda check: mismatch(check, healthy[0])


def mismatch(check: Check, reference: Check) -> float | None:
    """Return the share of greedy answers that are not the reference's; a refused one is not."""
    found = [
        float(row.token_ids != other.token_ids) for row, other in pairs(check, reference, "greedy")
    ]
    found += [1.0] * len(check.missing("greedy"))
    return sum(found) / len(found) if found else None


METHOD = Method("exact match", ("greedy",), learn, "common practice")
