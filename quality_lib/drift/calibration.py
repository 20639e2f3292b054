"""What healthy checks of one deployment look like: the ground that the decision stands on. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from quality_lib.drift.block_effect import BlockEffect, adjusted
from quality_lib.drift.conformal import at_least, plain_p, upper_p
from quality_lib.drift.evalue import WEIGHTS, calibrator, combine, rank_e
from quality_lib.drift.healthy import Healthy
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import Statistic, Statistics, pair_up, statistics
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.drift.variants import Variants


@dataclass(frozen=True)
class StatisticHealth:
    """One statistic over the healthy checks."""

    values: tuple[float, ...]
    """In the order of the checks, each standardised without its own block."""
    blocks: tuple[int, ...]
    """The block of each value."""
    effect: BlockEffect
    block_sigmas: float

    @cached_property
    def ordered(self) -> tuple[float, ...]:
        """The values as the worst healthy block would show them, sorted."""
        return tuple(sorted(adjusted(self.values, self.blocks, self.effect, self.block_sigmas)))

    @cached_property
    def mean(self) -> float:
        """Of ``ordered``."""
        return math.fsum(self.ordered) / len(self.ordered)

    @cached_property
    def sd(self) -> float:
        """Of ``ordered``; 0 where nothing varies."""
        n = len(self.ordered)
        squares = math.fsum((x - self.mean) ** 2 for x in self.ordered)
        return math.sqrt(squares / (n - 1)) if n > 1 else 0.0


@dataclass(frozen=True)
class Calibration:
    """Healthy checks of one deployment."""

    reference_id: str
    """The check that all were held against."""
    platform: str
    """Names engine, kernels and host as far as they set the bits; empty: not known."""
    checks: int
    blocks: tuple[Block, ...]
    exact_up_to: int
    """With so many requests at once every score of every check and start was the reference's, bit for bit; 0: never."""
    healthy: Mapping[Key, Healthy]
    variants: Mapping[Key, Variants]
    """The answers of healthy checks, from the nearest of which movements are measured."""
    statistics: Mapping[Statistic, StatisticHealth]
    recheck_correlation: float | None
    """Largest intraclass correlation of any statistic within healthy bursts; None: not measured."""
    bursts: tuple[float, ...]
    """Sorted mean e-values of whole healthy bursts."""
    risk: float
    """Chance, over calibrations, that this one does not hold the budget."""
    most_running: int = 0
    """The most requests that were under way at once in any check, other users' included."""
    accepted_by: str = ""
    """Who vouched for the service when this was learned after a suspicion; empty: there was none."""

    @property
    def is_deterministic(self) -> bool:
        """Whether scores were the reference's at every load."""
        return self.exact_up_to > 0 and all(b.load <= self.exact_up_to for b in self.blocks)

    def is_exact_for(self, load: int, running: int | None = None) -> bool:
        """Whether every bit counts of a check at this load, with so many requests under way (None: not told)."""
        return 0 < max(load, running or 0) <= self.exact_up_to

    @property
    def starts(self) -> int:
        """How many server starts it saw."""
        return len({block.start for block in self.blocks})

    @property
    def known(self) -> frozenset[Statistic]:
        """The statistics that it can judge."""
        return frozenset(self.statistics)

    @property
    def largest_e(self) -> float:
        """The most evidence that one check can bring; more healthy checks allow more."""
        share = self.risk / len(WEIGHTS)
        return (
            combine(
                {name: rank_e(0, len(s.values), share) for name, s in self.statistics.items()},
                self.known,
            )
            or 0.0
        )

    def covers(self, block: Block) -> bool:
        """Whether load and cache state are among those it saw; each start is a new one anyway."""
        loads = [b.load for b in self.blocks]
        return (
            bool(loads)
            and min(loads) <= block.load <= max(loads)
            and block.cache in {b.cache for b in self.blocks}
        )

    @property
    def most_under_way(self) -> int:
        """The most requests at once that it knows scores of: asked by itself or seen beside others."""
        return max(self.most_running, *(b.load for b in self.blocks), 0)

    def measure(self, reading: CheckReading, reference: CheckReading) -> Statistics:
        """Return the statistics of a further check, held against the nearest healthy answers."""
        return statistics(pair_up(reading, reference, self.variants), self.healthy)

    def e_values(self, found: Statistics) -> dict[Statistic, float | None]:
        """Return the e-value of each statistic of a further check, by its rank among healthy ones."""
        return {
            name: None
            if (value := found.get(name)) is None
            else rank_e(
                at_least(value, health.ordered), len(health.ordered), self.risk / len(WEIGHTS)
            )
            for name, health in self.statistics.items()
        }

    def evidence(self, found: Statistics) -> float | None:
        """Return the e-value of a further check; None when nothing could be measured."""
        return combine(self.e_values(found), self.known)

    def p_values(self, found: Statistics) -> dict[Statistic, tuple[float, float]]:
        """Return (plain, conservative) p-values, for people; the decision uses e-values."""
        return {
            name: (
                plain_p(rank := at_least(value, health.ordered), len(health.ordered)),
                upper_p(rank, len(health.ordered)),
            )
            for name, health in self.statistics.items()
            if (value := found.get(name)) is not None
        }

    def conservative_evidence(self, found: Statistics) -> float | None:
        """Return the e-value by conservative p-values (detection anchors, 4.3.2), for comparison."""
        p = self.p_values(found)
        return combine({name: calibrator(upper) for name, (_, upper) in p.items()}, self.known)

    def multiplies(self, limits: DriftLimits) -> bool:
        """Whether re-checks are independent enough for their e-values to be multiplied."""
        found = self.recheck_correlation
        return found is not None and found <= limits.most_recheck_correlation
