"""How calm and how curious the detection of drift is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

HOURLY_LOAD, MOST_LOAD = 1, 256
"""Probes at once: of the hourly check, and the most that a calibration may ask."""


@dataclass(frozen=True)
class DriftLimits:
    """The budget of false alarms, from which all levels follow, and what a calibration must hold."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    false_alarms_per_year: float = 0.1
    """Healthy endpoints may page this often, each."""
    checks_per_year: float = 8760
    """Regular checks of one endpoint; 8760 is hourly. Re-checks do not count."""
    endpoints: int = 1
    """Endpoints that share the budget: with 10, all of them together page 0.1 times a year."""
    calibration_risk: float = 0.01
    """Chance that a calibration is so lucky that the budget does not hold for it."""
    suspicion: float = 5.0
    """E-value of one check from which on it is repeated at once, and nothing learned from it."""
    most_rechecks: int = 8
    most_recheck_correlation: float = 0.1
    """Up to this intraclass correlation of healthy re-checks their e-values are multiplied."""
    gross_factor: float = 3.0
    """A mean movement above so many times the largest healthy one, seen twice, pages without waiting
    and spends half of the budget; 0 turns this off."""
    block_sigmas: float = 3.0
    """How many standard deviations between healthy blocks another block may lie off."""
    min_checks: int = 200
    """A calibration of fewer healthy checks is refused; 2000 are wanted for a quick detection."""
    min_blocks: int = 20
    """Blocks (server start, load, cache) of a calibration; 3 starts are enough where every score
    repeats bit for bit."""
    min_starts: int = 3
    min_bursts: int = 0
    """Where re-checks may not be multiplied, rank a whole burst among so many healthy ones or more; 0:
    never, the next hours decide. Simulated, ranking takes longer (``design/018-drift.md``)."""
    min_probe_share: float = 0.5
    """A check with a smaller share of its probes answered says nothing."""
    moved_checks: int = 3
    """So many checks in a row with scores that move, differently each time, are a change where
    scores repeat bit for bit in health."""
    score_tolerance: float = 0.03
    """A quality score may lie so far below its healthy mean without being called degraded."""
    watch_per_year: float = 1.0
    """False alarms of the watch line (CUSUM), which never pages."""

    def __post_init__(self) -> None:
        for name in ("false_alarms_per_year", "checks_per_year", "watch_per_year"):
            self._require(name, getattr(self, name) > 0, "be above 0")
        for name in ("calibration_risk", "min_probe_share"):
            self._require(name, 0 < getattr(self, name) < 1, "lie between 0 and 1")
        for name in ("endpoints", "min_checks", "min_starts", "moved_checks"):
            self._require(name, getattr(self, name) >= 1, "be at least 1")
        for name in (
            "most_rechecks",
            "min_bursts",
            "gross_factor",
            "block_sigmas",
            "score_tolerance",
        ):
            self._require(name, getattr(self, name) >= 0, "be at least 0")
        correlation = "most_recheck_correlation"
        self._require(correlation, 0 <= self.most_recheck_correlation <= 1, "lie between 0 and 1")
        self._require(
            "min_blocks", self.min_blocks >= 2, "be at least 2: one is left out at a time"
        )
        self._require("suspicion", self.suspicion > 1, "be above 1")
        few = self.false_alarms_per_year < self.checks_per_year
        self._require("false_alarms_per_year", few, "lie below checks_per_year")

    def _require(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(f"{name} must {what}")


def check_loads(loads: Sequence[int]) -> tuple[int, ...]:
    """Return the loads of a calibration.

    Raises:
        ValueError: they lack the load of the hourly check, or one is none.
    """
    if HOURLY_LOAD not in loads or not all(1 <= load <= MOST_LOAD for load in loads):
        raise ValueError(
            f"must hold {HOURLY_LOAD}, the load of the hourly check, and lie between 1 and {MOST_LOAD}"
        )
    return tuple(loads)
