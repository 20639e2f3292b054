"""Perplexity of an answer, window by window: a good head must not hide a dead tail. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

SHORTEST = 16
"""Tokens below which nothing is said: one rare name decides the mean of a few."""
_LARGEST = 700.0  # of a mean in nats; exp of more overflows


def windowed_perplexities(logprobs: Sequence[float], window: int) -> tuple[float, ...]:
    """Return exp(-mean log-probability) of windows that overlap by half, the last one at the end.

    An answer that does not fill a window is one window; one below ``SHORTEST`` tokens has none.
    """
    count = len(logprobs)
    if count < SHORTEST:
        return ()
    size = min(max(window, SHORTEST), count)
    starts = [*range(0, count - size, max(1, size // 2)), count - size]
    means = [sum(logprobs[start : start + size]) / size for start in starts]
    return tuple(_perplexity(mean) for mean in means)


def _perplexity(mean: float) -> float:
    if math.isnan(mean):
        return math.inf  # a text that breaks the reference model's arithmetic is no text it knows
    return math.exp(min(-mean, _LARGEST))
