"""Quantiles of the beta distribution, for bounds on tails that were only sampled. Pure."""

from __future__ import annotations

import math

_TINY = 1e-300
_MOST_TERMS = 100_000


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X <= x) of a Beta(a, b): the regularised incomplete beta function.

    Continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions, evaluated by
    Lentz's method; where it converges slowly the symmetry I_x(a, b) = 1 - I_(1-x)(b, a) is used.
    """
    if a <= 0 or b <= 0:
        raise ValueError("both parameters must be above 0")
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return min(1.0, front * _fraction(x, a, b) / a)
    return max(0.0, 1.0 - front * _fraction(1 - x, b, a) / b)


def beta_quantile(chance: float, a: float, b: float) -> float:
    """Return the x with ``beta_cdf(x, a, b) = chance``, by bisection."""
    if not 0 < chance < 1:
        raise ValueError("the chance must lie between 0 and 1")
    low, high = 0.0, 1.0
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        if beta_cdf(middle, a, b) < chance:
            low = middle
        else:
            high = middle
    return high


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = result
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(result - before) <= 1e-15 * abs(result):
            break
    return result
