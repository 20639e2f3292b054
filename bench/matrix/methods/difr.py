"""Token-DiFR (Karvonen et al., 2025) as a replay of seeds: does the same draw give the same token?

The published score is the margin, after the sampler's noise, between the reference's token and the served one. A
recording holds no noise, so what is counted here is the mismatch itself, up to the first one: after it the contexts
differ. On a server that repeats itself any mismatch is proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, pairs
from bench.matrix.recording import Check


def learn(healthy: Sequence[Check]) -> Scorer:
    """Replay the seeds of the first healthy check."""
    return lambda check: hazard(check, healthy[0])


def hazard(check: Check, reference: Check) -> float | None:
    """Return mismatches per token that could have been one; a refused answer is one at its first token."""
    forks, exposed = len(check.missing("seeded")), len(check.missing("seeded"))
    for row, other in pairs(check, reference, "seeded"):
        same = first_difference(row.token_ids, other.token_ids)
        length = len(other.token_ids)
        forks += same is not None
        exposed += length if same is None else same + 1
    return forks / exposed if exposed else None


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first position at which two answers part; None when they are equal."""
    for position, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


METHOD = Method("Token-DiFR, replay", ("seeded",), learn, "Karvonen et al., arXiv 2511.20621")
