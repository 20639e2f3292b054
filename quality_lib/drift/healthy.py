"""What one probe does in health: mean and spread of its movement. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quality_lib.drift.paired import Pair

LEAST_MOVE = 1e-4
"""Nats per token; below this nothing matters."""
MOST_MOVE = 20.0
"""Nats per token; a missing number counts as much. The least likely of 50,000 equal tokens has 11."""
LEAST_SD = 1.0
"""E-folds: a movement by less than a factor of e is no surprise, however still a probe has been."""


def folds(moved: float) -> float:
    """Return a movement in nats per token as e-folds, ``ln(1 + |d| / LEAST_MOVE)`` with its sign, at most 12.2.

    Healthy movements differ by factors: a kernel that adds up in another order moves a score 20 times as far as a
    rounded last digit. On this scale they are about normal, and one wild probe cannot carry a mean.
    """
    return math.copysign(math.log1p(min(abs(moved), MOST_MOVE) / LEAST_MOVE), moved)


def nats(folded: float) -> float:
    """Undo ``folds``."""
    return math.copysign(math.expm1(abs(folded)) * LEAST_MOVE, folded)


@dataclass(frozen=True)
class Healthy:
    """One probe over the healthy checks; movements in e-folds."""

    checks: int
    """Checks in which it was answered."""
    measured: int
    """Checks in which it had a finite delta."""
    mean: float
    sd: float
    """At least ``LEAST_SD``."""
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
    def usual_delta(self) -> float:
        """The usual movement in nats per token, for people."""
        return nats(self.mean)


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
    """Add up the pairs of one probe; ``centre`` is taken from the movements so that squares stay exact."""
    finite = [
        (folds(p.delta) - centre, folds(p.signed))
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


def healthy_of(sums: Sums, centre: float) -> Healthy:
    """Turn sums into what is healthy."""
    n = sums.measured
    mean, sd = _mean_sd(sums.delta, sums.delta_squares, n)
    signed_mean, signed_sd = _mean_sd(sums.signed, sums.signed_squares, n)
    return Healthy(
        checks=int(sums.checks),
        measured=int(n),
        mean=mean + centre if n else 0.0,
        sd=max(sd, LEAST_SD),
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
