"""The detectors that are scored on the same recordings."""

from __future__ import annotations

from bench.matrix.methods import (
    article,
    b3it,
    difr,
    exact_match,
    kayenta,
    lt,
    met,
    perplexity,
    product,
    rolling_z,
    rut,
    scored_delta,
)
from bench.matrix.methods.method import Method


def every_method(similarity: article.Similarity) -> tuple[Method, ...]:
    """Return all of them, the product's first."""
    return (
        product.METHOD,
        scored_delta.METHOD,
        article.method(similarity),
        exact_match.METHOD,
        lt.METHOD,
        met.METHOD,
        b3it.METHOD,
        rut.METHOD,
        difr.METHOD,
        perplexity.METHOD,
        rolling_z.METHOD,
        kayenta.METHOD,
    )
