"""Perplexity of an answer, window by window: a good head must not hide a dead tail. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

SHORTEST = 8
"""Tokens below which nothing is said: one rare name decides the mean of a few."""
_LARGEST = 700.0  # of a mean in nats; exp of more overflows


def windowed_perplexities(logprobs: Sequence[float], window: int) -> tuple[float, ...]:
    """Return exp(-mean log-probability) of windows that overlap by half, the last one at the end.

    An answer that does not fill a window is one window; one below ``SHORTEST`` tokens has none.
    """
    return tuple(_perplexity(mean) for mean in windowed_means(logprobs, window))


def windowed_means(values: Sequence[float], window: int) -> tuple[float, ...]:
    """Return the means of windows that overlap by half, as ``windowed_perplexities`` takes them."""
    count = len(values)
    if count < SHORTEST:
        return ()
    size = min(max(window, SHORTEST), count)
    starts = [*range(0, count - size, max(1, size // 2)), count - size]
    return tuple(sum(values[start : start + size]) / size for start in starts)


def _perplexity(mean: float) -> float:
    if math.isnan(mean):
        return math.inf  # a text that breaks the reference model's arithmetic is no text it knows
    return math.exp(min(-mean, _LARGEST))
