"""Invented health for the simulation of the drift decision, and calibrations drawn from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quality_lib.drift.block_effect import BlockEffect, block_effect
from quality_lib.drift.calibration import StatisticHealth
from quality_lib.drift.evalue import WEIGHTS, beta_e, calibrator, rank_e
from quality_lib.drift.evidence import GROSS, gross_level
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import Statistic

Array = NDArray[np.float64]
NAMES = tuple(Statistic)
COMMON = 0.5
PROBES = 16
HIT = 6.0
"""Where a probe lands that meets an intermittent fault, in e-folds: weights rounded to four bits move it so far."""
RISK = DriftLimits().calibration_risk / len(WEIGHTS)


@dataclass(frozen=True)
class Health:
    """How a healthy server varies."""

    block_icc: float = 0.0
    """Share of the variance that checks of one block (server start, load, cache) have in common."""
    spread: float = 0.0
    """Standard deviation of the blocks' log spread."""
    tails: float = math.inf
    """Degrees of freedom of Student's t; infinite: Gaussian."""
    block_hours: int = 168
    """How long a service stays within one block."""
    recheck_correlation: float = 0.0
    probes: bool = False
    """Statistics out of 16 independent probes, as intermittent faults need it."""

    def checks(self, rng: np.random.Generator, blocks: int, each: int) -> Array:
        """Return (blocks * each) checks of five statistics."""
        shape = (blocks, each, len(NAMES))
        if self.probes:
            return of_probes(rng.standard_normal((blocks * each, PROBES)), rng)
        common = rng.standard_normal((blocks, each, 1))
        noise = rng.standard_normal(shape)
        noise[..., :3] = math.sqrt(COMMON) * common + math.sqrt(1 - COMMON) * noise[..., :3]
        if math.isfinite(self.tails):
            noise /= np.sqrt(rng.chisquare(self.tails, (blocks, each, 1)) / self.tails)
        noise *= np.exp(self.spread * rng.standard_normal((blocks, 1, 1)))
        offset = rng.standard_normal((blocks, 1, len(NAMES)))
        mixed = math.sqrt(self.block_icc) * offset + math.sqrt(1 - self.block_icc) * noise
        return np.asarray(mixed.reshape(-1, len(NAMES)))

    def recheck(self, rng: np.random.Generator, check: Array, shift: Array) -> Array:
        """Return one re-check of the same hour; ``check`` is the regular one without its fault."""
        rho = self.recheck_correlation
        fresh = self.checks(rng, 1, 1)[0]
        return np.asarray(rho * check + math.sqrt(1 - rho * rho) * fresh + shift)


def of_probes(z: Array, rng: np.random.Generator) -> Array:
    """Turn standardised movements (check, probe) into the five statistics; the last two are chance."""
    signed = np.abs(z.sum(1)) / math.sqrt(PROBES)
    other = rng.standard_normal((len(z), 2))
    return np.column_stack([z.mean(1) * math.sqrt(PROBES), z.max(1), signed, other])


@dataclass
class Judge:
    """A calibration with its ranks turned into e-values at once."""

    kind: str
    health: list[StatisticHealth]
    bursts: tuple[float, ...] = ()
    orders: list[Array] = field(init=False)
    tables: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        self.orders = [np.asarray(h.ordered) for h in self.health]
        self.tables = [table(self.kind, len(order)) for order in self.orders]

    def e_values(self, checks: Array, own: int = 0) -> Array:
        """Return the e-value of each check; ``own`` 1 takes a healthy check out of its own rank."""
        total = np.zeros(len(checks))
        for column, (order, e) in enumerate(zip(self.orders, self.tables, strict=True)):
            rank = len(order) - np.searchsorted(order, checks[:, column], side="left") - own
            total += WEIGHTS[NAMES[column]] * e[np.maximum(rank, 0)]
        return total

    def is_gross(self, checks: Array, limits: DriftLimits) -> Array:
        found = np.zeros(len(checks), dtype=bool)
        for name in GROSS:
            known = self.health[column := NAMES.index(name)]
            level = gross_level(name, known.ordered[-1], known.sd, limits.gross_factor)
            found |= checks[:, column] > level
        return found


_TABLES: dict[tuple[str, int], Array] = {}
E_VALUES: dict[str, Callable[[int, int], float]] = {
    "rank": lambda rank, n: rank_e(rank, n, RISK),
    "beta": beta_e,
    "plain": lambda rank, n: calibrator((rank + 1) / (n + 1)),
}


def table(kind: str, healthy: int) -> Array:
    key = (kind, healthy)
    if key not in _TABLES:
        _TABLES[key] = np.array([E_VALUES[kind](r, healthy) for r in range(healthy + 1)])
    return _TABLES[key]


def calibrated(
    rng: np.random.Generator,
    health: Health,
    checks: int = 2000,
    blocks: int = 20,
    kind: str = "rank",
    sigmas: float = 3.0,
    bursts: int = 0,
) -> Judge:
    """Draw a calibration; ``bursts`` are healthy ones of nine checks for the block bet."""
    drawn = health.checks(rng, blocks, checks // blocks)
    numbers = tuple(block for block in range(blocks) for _ in range(checks // blocks))
    found = []
    for column in range(len(NAMES)):
        values = tuple(drawn[:, column].tolist())
        effect = block_effect(values, numbers) if sigmas else BlockEffect()
        found.append(StatisticHealth(values, numbers, effect, sigmas))
    judge = Judge(kind, found)
    if bursts:
        first = health.checks(rng, 1, bursts)
        none = np.zeros(len(NAMES))
        again = [[check, *(health.recheck(rng, check, none) for _ in range(8))] for check in first]
        judge.bursts = tuple(
            sorted(float(judge.e_values(np.asarray(burst)).mean()) for burst in again)
        )
    return judge
