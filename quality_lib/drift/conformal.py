"""P-values by rank among healthy checks. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from quality_lib.drift.beta import beta_quantile

CONFIDENCE = 0.99


def at_least(value: float, ordered: Sequence[float]) -> int:
    """Count the healthy values that are at least ``value``; ties count, which errs towards silence."""
    return len(ordered) - bisect_left(ordered, value)


def plain_p(rank: int, healthy: int) -> float:
    """Return the conformal p-value ``(r + 1) / (n + 1)`` of a value that ``rank`` healthy ones reach.

    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World (2005). It is valid on average
    over calibrations; one lucky calibration makes every check of a year look rarer than it is. 1
    without healthy values.
    """
    _check(rank, healthy)
    return (rank + 1) / (healthy + 1)


@lru_cache(maxsize=65536)
def upper_p(rank: int, healthy: int, confidence: float = CONFIDENCE) -> float:
    """Return an upper bound on the tail beyond a value that ``rank`` healthy values reach.

    The tail probability beyond the (r+1)-th largest of n is Beta(r + 1, n - r) distributed, whatever
    the distribution; the bound is its 99 % quantile (Bates, Candès, Lei, Romano and Sesia, Annals of
    Statistics 51, 2023, on calibration-conditional p-values; detection anchors, 4.3.2). It holds for
    each rank by itself, not for all ranks at once; ``fair_scale`` gives what the decision needs.
    1 when every healthy value reaches it, or without any.
    """
    _check(rank, healthy)
    if rank >= healthy:
        return 1.0
    return beta_quantile(confidence, rank + 1, healthy - rank)


def _check(rank: int, healthy: int) -> None:
    if not 0 <= rank <= healthy:
        raise ValueError(f"rank {rank} does not lie between 0 and {healthy}")
