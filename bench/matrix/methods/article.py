"""The rule of the reference article: mean embedding similarity of golden answers, 0.85 alerts and 0.80 rolls back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.matrix.methods.method import Method, Scorer, pairs
from bench.matrix.recording import Check

ALERT, ROLLBACK = 0.85, 0.80
Similarity = Callable[[Sequence[tuple[str, str]]], Sequence[float]]


def method(similarity: Similarity) -> Method:
    """Return the method with an embedding model; alarms when ``1 - mean`` is above ``1 - 0.85``."""

    def learn(healthy: Sequence[Check]) -> Scorer:
        return lambda check: dissimilarity(check, healthy[0], similarity)

    return Method(
        "article's rule",
        ("greedy",),
        learn,
        "reference article: mean similarity below 0.85",
        own_rule=1 - ALERT,
    )


def dissimilarity(check: Check, reference: Check, similarity: Similarity) -> float | None:
    """Return one minus the mean similarity; equal texts are 1, and a missing one is 0."""
    texts = [(row.text, other.text) for row, other in pairs(check, reference, "greedy")]
    unequal = list(dict.fromkeys(pair for pair in texts if pair[0] != pair[1]))
    open_pairs = [pair for pair in unequal if all(text.strip() for text in pair)]
    rated = dict(zip(open_pairs, similarity(open_pairs) if open_pairs else (), strict=True))
    found = [1.0 if a == b else max(0.0, float(rated.get((a, b), 0.0))) for a, b in texts]
    found += [0.0] * len(check.missing("greedy"))
    return 1.0 - sum(found) / len(found) if found else None
