"""What counts as bad enough for a rollback, and what holds a rollback back. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from quality_lib.rollout.engine_judgement import SIGNALS
from quality_lib.rollout.policy import parse_policy

Mode = Literal["auto", "approve-first", "approve-last", "alert-only"]
"""Who says yes: nobody, a person before anything starts, a person before traffic moves, or nobody
can because a rollback is never started."""
Strategy = Literal["surge", "rolling", "in-place"]


@dataclass(frozen=True)
class TriggerLimits:
    """Limits of the conditions A, B and C, and how old their evidence may be (requirement R1)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    policy: str = "(A and B) or C"
    """Which conditions together call for a rollback: ``and``, ``or``, ``not``, parentheses."""
    golden_runs: int = 2
    """A: so many golden runs in a row must be bad."""
    similarity_below: float = 0.80
    """A: a golden run is bad below this mean similarity, or when its verdict is failed."""
    golden_max_age_minutes: float = 150.0
    """A newer golden run than this must exist, or A is unknown. Runs are hourly: one may be late."""
    golden_max_gap_minutes: float = 150.0
    """Golden runs that lie further apart are not *in a row*."""
    low_quality_rate: float = 0.05
    """B: share of low-quality answers that is too much."""
    false_alarm: float = 0.001
    """B: chance with which a rate of exactly the limit would be called above it (exact test)."""
    min_rows: int = 50
    """B: a window with fewer judged answers says nothing."""
    window_max_age_minutes: float = 30.0
    """B: a scored window that ended longer ago says nothing of now. Windows are of ten minutes, and
    late by the time that their logs need to arrive."""
    signal_max_age_minutes: float = 15.0
    """C: an engine signal that was read longer ago says nothing of now."""
    required_signals: tuple[str, ...] = ("engine_health",)
    """C: engine signals that must be known before C can be *no*. Others may be missing: hardly any
    server has them all, and what nobody measures must not leave C unknown for ever."""
    clock_skew_s: float = 120.0
    """Evidence may carry a time so far in the future; beyond it the clocks disagree and it is left
    out."""

    def __post_init__(self) -> None:
        parse_policy(self.policy)
        for name in ("similarity_below", "low_quality_rate", "false_alarm"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between 0 and 1")
        if unknown := [name for name in self.required_signals if name not in SIGNALS]:
            raise ValueError(
                f"there is no engine signal '{unknown[0]}'; there are {', '.join(SIGNALS)}"
            )
        for name in ("golden_runs", "min_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in (
            "golden_max_age_minutes",
            "golden_max_gap_minutes",
            "window_max_age_minutes",
            "signal_max_age_minutes",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        if not self.clock_skew_s >= 0:
            raise ValueError("clock_skew_s must not be negative")


@dataclass(frozen=True)
class RollbackLimits:
    """What holds a rollback back although the evidence calls for one (requirement R7)."""

    mode: Mode = "approve-first"
    cool_down_minutes: float = 60.0
    """After the end of an incident no other rollback starts for so long."""
    daily_limit: int = 3
    """Rollbacks of one service within 24 hours."""
    approval_timeout_minutes: float = 30.0
    """An incident that nobody has begun to work on for longer needs a person."""
    has_route: bool = True
    """Whether there is a proxy whose weights can be moved."""
