"""What one probe does in health: mean, spread and a high quantile of its movement. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quality_lib.drift.paired import Pair

LEAST_SD = 1e-4
"""Nats per token. A probe that never moved in health has no spread; below this nothing matters."""
CAP_FACTOR = 10.0
QUANTILE = 0.999


@dataclass(frozen=True)
class Healthy:
    """One probe over the healthy checks; log-probabilities in nats per token."""

    checks: int
    """Checks in which it was answered."""
    measured: int
    """Checks in which it had a finite delta."""
    mean: float
    sd: float
    """At least ``LEAST_SD``."""
    quantile: float
    """99.9 % of the healthy movements lie at or below it."""
    signed_mean: float
    signed_sd: float
    fork_rate: float
    """Forks per token that could have forked."""
    fork_weight: float
    """Mean weight of a fork, early ones counting more."""

    @property
    def is_measured(self) -> bool:
        """Whether it ever had log-probabilities to compare."""
        return self.measured > 0

    @property
    def cap(self) -> float:
        """Winsorise movements here (detection anchors, 4.3)."""
        return CAP_FACTOR * max(self.quantile, LEAST_SD)


@dataclass(frozen=True)
class Sums:
    """Sums over the healthy checks of one probe that add up (``+``) and can be taken out (``-``)."""

    checks: float = 0
    measured: float = 0
    delta: float = 0.0
    delta_squares: float = 0.0
    signed: float = 0.0
    signed_squares: float = 0.0
    forks: float = 0
    exposed: float = 0
    fork_weight: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def __sub__(self, other: Sums) -> Sums:
        return Sums(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[float, ...]:
        """Return the fields in their order."""
        return (
            self.checks,
            self.measured,
            self.delta,
            self.delta_squares,
            self.signed,
            self.signed_squares,
            self.forks,
            self.exposed,
            self.fork_weight,
        )


def sums_of(pairs: Sequence[Pair], centre: float) -> Sums:
    """Add up the pairs of one probe; ``centre`` is taken from the deltas so that squares stay exact."""
    finite = [
        (p.delta - centre, p.signed)
        for p in pairs
        if p.delta is not None and math.isfinite(p.delta) and p.signed is not None
    ]
    return Sums(
        checks=len(pairs),
        measured=len(finite),
        delta=math.fsum(d for d, _ in finite),
        delta_squares=math.fsum(d * d for d, _ in finite),
        signed=math.fsum(s for _, s in finite),
        signed_squares=math.fsum(s * s for _, s in finite),
        forks=sum(p.fork is not None for p in pairs),
        exposed=sum(p.exposed for p in pairs),
        fork_weight=math.fsum(p.fork_weight for p in pairs),
    )


def healthy_of(sums: Sums, centre: float, quantile: float) -> Healthy:
    """Turn sums into what is healthy; ``quantile`` comes from the sorted deltas."""
    n = sums.measured
    mean, sd = _mean_sd(sums.delta, sums.delta_squares, n)
    signed_mean, signed_sd = _mean_sd(sums.signed, sums.signed_squares, n)
    return Healthy(
        checks=int(sums.checks),
        measured=int(n),
        mean=mean + centre if n else 0.0,
        sd=max(sd, LEAST_SD),
        quantile=quantile,
        signed_mean=signed_mean,
        signed_sd=max(signed_sd, LEAST_SD),
        fork_rate=sums.forks / sums.exposed if sums.exposed else 0.0,
        fork_weight=sums.fork_weight / sums.checks if sums.checks else 0.0,
    )


def _mean_sd(total: float, squares: float, n: float) -> tuple[float, float]:
    if not n:
        return 0.0, 0.0
    mean = total / n
    variance = (squares - n * mean * mean) / (n - 1) if n > 1 else 0.0
    return mean, math.sqrt(max(0.0, variance))
