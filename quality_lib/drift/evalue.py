"""E-values: evidence against health whose mean is at most 1 in health. Pure.

An e-value may be multiplied by the next independent one and averaged with dependent ones; its size is
the factor by which a bet against health has grown (Vovk and Wang, Annals of Statistics 49, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from quality_lib.drift.conformal import plain_p, upper_p
from quality_lib.drift.paired import Statistic

KAPPAS = (0.05, 0.1, 0.2, 0.4, 0.8)
WEIGHTS: Mapping[Statistic, float] = {
    Statistic.MEAN_Z: 0.35,
    Statistic.MAX_Z: 0.25,
    Statistic.SIGNED: 0.15,
    Statistic.REPLAY: 0.15,
    Statistic.FORKS: 0.10,
}
"""Detection anchors, 4.3.4."""
_FINE = 50
"""Ranks below this are kept apart when sums over all ranks are bounded; later ones go in steps of 2 %."""


def calibrator(p: float) -> float:
    """Turn a p-value into an e-value: the mean of ``kappa * p ** (kappa - 1)``.

    Vovk and Wang (2021), section 2; Shafer, Shen, Vereshchagin and Vovk, Statistical Science 26 (2011).
    Each term integrates to 1 over [0, 1]. A small kappa bets on tiny p-values, a large one on a slight
    shift (detection anchors, 4.3.3).
    """
    if not 0 < p <= 1:
        raise ValueError("a p-value lies above 0 and at most at 1")
    return math.fsum(kappa * p ** (kappa - 1) for kappa in KAPPAS) / len(KAPPAS)


def beta_e(rank: int, healthy: int) -> float:
    """Return the e-value of the conservative p-value (detection anchors, 4.3.2 and 4.3.3)."""
    return calibrator(upper_p(rank, healthy))


def rank_e(rank: int, healthy: int, risk: float) -> float:
    """Return the e-value of a rank: the calibrator of the plain conformal p-value, times ``fair_scale``.

    Given the calibration its mean over a further healthy check is at most 1, but for calibrations
    with a chance of ``risk``. The largest of 2000 healthy checks at 0.002 is 58; ``beta_e`` gives 16.7.
    Derived in ``design/018-drift.md``.
    """
    return fair_scale(healthy, risk) * calibrator(plain_p(rank, healthy))


@lru_cache(maxsize=1024)
def fair_scale(healthy: int, risk: float) -> float:
    """Return the factor that makes rank e-values fair given the calibration, not only on average.

    Whatever the continuous distribution, the probabilities of a further check's n + 1 ranks are the
    spacings of n uniform variables, that is ``E_r / sum(E)`` of independent exponential variables
    (Pyke, J. Royal Statistical Society B 27, 1965). So a calibration is unfair when
    ``sum E_r (scale * e_r - 1) > 0``, whose chance Chernoff's bound limits to
    ``min over t of prod 1 / (1 - t (scale * e_r - 1))``. The result is the largest scale for which
    the bound is at most ``risk``. Ties only lower e-values. Without healthy checks every e-value is 1.
    """
    if healthy < 0 or not 0 < risk < 1:
        raise ValueError("healthy must be at least 0 and risk lie between 0 and 1")
    terms = _ranks(healthy)
    mean = math.fsum(many * e for e, many in terms) / (healthy + 1)
    low, high = 0.0, 1.0 / mean
    for _ in range(18):
        middle = (low + high) / 2
        if _log_unfair(terms, middle) <= math.log(risk):
            low = middle
        else:
            high = middle
    return low


def _ranks(healthy: int) -> list[tuple[float, int]]:
    """Return (e-value, how many ranks), later ranks in groups that count as their largest e-value."""
    terms, rank = [], 0
    while rank <= healthy:
        many = min(max(1, rank // _FINE), healthy + 1 - rank)
        terms.append((calibrator(plain_p(rank, healthy)), many))
        rank += many
    return terms


def _log_unfair(terms: list[tuple[float, int]], scale: float) -> float:
    """Return the logarithm of Chernoff's bound at the t where it is smallest (it is convex in t)."""
    gains = [(scale * e - 1, many) for e, many in terms]
    most = max(gain for gain, _ in gains)
    if most <= 0:
        return -math.inf
    if math.fsum(gain * many for gain, many in gains) >= 0:
        return 0.0
    low, high = 0.0, (1 - 1e-9) / most
    for _ in range(28):
        t = (low + high) / 2
        # The slope at t; any t gives a true bound, so stopping early only errs towards silence.
        if sum(many * gain / (1 - t * gain) for gain, many in gains) < 0:
            low = t
        else:
            high = t
    return -math.fsum(many * math.log1p(-low * gain) for gain, many in gains)


def combine(found: Mapping[Statistic, float | None], known: frozenset[Statistic]) -> float | None:
    """Average e-values of one check by weight; valid however the statistics depend on each other.

    ``known`` are the statistics of the calibration; their weights are scaled to 1, which is settled
    before the check. One that is None now counts as 0, so that what is missing never raises the
    evidence. None when nothing was found. Vovk and Wang (2021), section 3: the arithmetic mean is
    essentially the only admissible symmetric way.
    """
    total = math.fsum(WEIGHTS[name] for name in known)
    present = [(WEIGHTS[n], e) for n, e in found.items() if n in known and e is not None]
    if not present or not total:
        return None
    return math.fsum(weight * e for weight, e in present) / total
