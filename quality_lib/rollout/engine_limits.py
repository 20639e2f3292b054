"""From where on a signal of the engine speaks of damage (condition C of requirement R1). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class EngineLimits:
    """Limits of the engine's own signals; ``docs/engine-signals.md`` says what each one means."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    window_minutes: float = 30.0
    """Readings that are older are forgotten; what rose within the window counts."""
    corrupted_requests: int = 1
    """Requests with NaN in their logits."""
    nan_steps: int = 1
    """Generation steps with NaN or infinity that our own gates saw."""
    idle_kv_usage: float = 0.40
    """Share of the KV cache in use although nothing runs or waits (R1: anomaly above 40 %)."""
    idle_readings: int = 2
    """In so many readings in a row."""
    idle_spread_s: float = 30.0
    """The first and the last of them lie at least so far apart."""
    preemptions: int = 20
    """A storm has at least so many preemptions…"""
    preemptions_per_request: float = 1.0
    """…and more than so many for each request that finished."""
    log_errors: int = 1
    """Errors of the engine's own processes in its log."""
    uncorrected_memory_errors: int = 1
    """Memory errors of a GPU that ECC could not correct, within the window."""

    def __post_init__(self) -> None:
        for name in (
            "corrupted_requests",
            "nan_steps",
            "preemptions",
            "log_errors",
            "uncorrected_memory_errors",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.idle_readings < 2:
            raise ValueError("idle_readings must be at least 2: one reading may fall between steps")
        if not 0 < self.idle_kv_usage < 1:
            raise ValueError("idle_kv_usage must lie between 0 and 1")
        if not (self.window_minutes > 0 and self.preemptions_per_request > 0):
            raise ValueError("window_minutes and preemptions_per_request must be above 0")
        if not self.idle_spread_s >= 0:
            raise ValueError("idle_spread_s must not be negative")
