"""A share from a sample: its estimate, its interval, and the exact test against a limit. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rate:
    """A share of rows, with its interval."""

    share: float
    low: float
    high: float
    rows: int
    """Rows that were judged."""
    effective_rows: float
    """Rows of a plain random sample that would say as much; equal to ``rows`` for equal weights."""


def wilson(hits: float, rows: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share; (0, 1) without rows: nothing is known.

    Wilson, JASA 22 (1927); recommended for small samples and shares near 0 by Brown, Cai and
    DasGupta, Statistical Science 16 (2001). ``hits`` and ``rows`` may be effective counts.
    """
    if rows <= 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = hits / rows
    middle = share + z * z / (2 * rows)
    spread = z * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    scale = 1 + z * z / rows
    # The ends touch 0 and 1 exactly where nothing or everything was hit; rounding must not say less.
    low = 0.0 if hits <= 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if hits >= rows else min(1.0, (middle + spread) / scale)
    return low, high


def chance_of_at_least(hits: int, rows: int, share: float) -> float:
    """Return P(X >= hits) of a binomial with ``rows`` trials: the exact one-sided test.

    1 for no hits or no rows: nothing speaks against the share.
    """
    if hits <= 0 or rows <= 0:
        return 1.0
    if hits > rows or share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    log_share, log_rest = math.log(share), math.log1p(-share)
    whole = math.lgamma(rows + 1)
    terms = [
        whole
        - math.lgamma(k + 1)
        - math.lgamma(rows - k + 1)
        + k * log_share
        + (rows - k) * log_rest
        for k in range(hits, rows + 1)
    ]
    most = max(terms)
    return min(1.0, math.exp(most) * math.fsum(math.exp(term - most) for term in terms))


def weighted_rate(
    rows: int,
    weight: float,
    weight_squares: float,
    hit_weight: float,
    confidence: float = 0.95,
) -> Rate | None:
    """Estimate a share from rows that stand for different numbers of rows; None without rows.

    A row's weight is the number of rows it stands for (the inverse of its chance to be sampled), so
    the estimate is the ratio of Hájek (1971). The interval is Wilson's at Kish's effective sample
    size, ``(sum w)^2 / sum w^2`` (Kish, Survey Sampling, 1965), which Franco, Little, Louis and Slud
    (J. Survey Statistics and Methodology 7, 2019) found to hold its level for small shares.
    """
    if rows <= 0 or weight <= 0 or weight_squares <= 0:
        return None
    share = min(1.0, max(0.0, hit_weight / weight))
    effective = min(float(rows), weight * weight / weight_squares)
    low, high = wilson(share * effective, effective, confidence)
    return Rate(share, low, high, rows, effective)


def exceeds(rate: Rate, limit: float, false_alarm: float) -> bool:
    """Whether a share is above a limit, with at most the given chance of being wrong.

    The test is exact for equal weights. Otherwise it counts effective rows, hits rounded down and
    rows rounded up, so that it errs towards silence.
    """
    hits = math.floor(rate.share * rate.effective_rows + _ROUNDING)
    rows = math.ceil(rate.effective_rows - _ROUNDING)
    return rate.share > limit and chance_of_at_least(hits, rows, limit) <= false_alarm


def hits_to_exceed(rows: int, limit: float, false_alarm: float) -> int | None:
    """Return how many hits of so many rows prove that a limit is exceeded; None when all do not."""
    low, high = 1, rows + 1
    while low < high:
        middle = (low + high) // 2
        if chance_of_at_least(middle, rows, limit) <= false_alarm:
            high = middle
        else:
            low = middle + 1
    return low if low <= rows else None
