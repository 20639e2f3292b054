"""Limits of reading and sampling logs, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class SampleLimits:
    """How much of a window is scored."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    max_rows: int = 2000
    """Exchanges scored per window, all partitions together: a rate of 5 % is then known to ± 1 %.
    Minimums of strata may add to it."""
    min_per_stratum: int = 20
    """Exchanges kept of every kind (model, tools, structured, stream, length) where there are so many."""
    max_objects: int = 5000
    """Objects read per window. Gateways write one object per request, so keys are sampled unread."""
    max_read_mb: float = 4096.0
    """Megabytes read per window, as they lie in the store."""
    seed: str = ""
    """Mixed into every choice, beside the window's start; another seed takes another sample."""

    def __post_init__(self) -> None:
        if self.max_rows < 1 or self.max_objects < 1:
            raise ValueError("max_rows and max_objects must be at least 1")
        if self.min_per_stratum < 0:
            raise ValueError("min_per_stratum must not be negative")
        if not self.max_read_mb > 0:
            raise ValueError("max_read_mb must be above 0")


@dataclass(frozen=True)
class ReadLimits:
    """What a log may look like before its window is inconclusive, and what is read of one object."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    lookback_minutes: float = 60.0
    """How long after its time an object may arrive and still be found. At least the longest answer
    plus the gateway's upload delay."""
    settle_seconds: float = 120.0
    """A window is read this long after its end: objects become visible a little after their date."""
    max_age_hours: float = 24.0
    """Exchanges that began longer than this before the window are dropped: an archive that was copied
    in, not traffic. A gateway that exports once a day or week needs more."""
    max_bad_share: float = 0.05
    """Above this share of entries that cannot be understood the window is inconclusive."""
    max_redacted_share: float = 0.5
    """Above this share of generated answers without their text the window is inconclusive."""
    max_entry_mb: float = 16.0
    """An entry longer than this is a bad line; it is skipped without being held in memory."""
    max_object_mb: float = 8192.0
    """Unpacked megabytes read of one object; the rest is a bad line. Bounds a zip bomb."""

    def __post_init__(self) -> None:
        if self.lookback_minutes < 0 or self.settle_seconds < 0:
            raise ValueError("lookback_minutes and settle_seconds must not be negative")
        if not self.max_age_hours > 0:
            raise ValueError("max_age_hours must be above 0")
        if not (0 <= self.max_bad_share <= 1 and 0 <= self.max_redacted_share <= 1):
            raise ValueError("max_bad_share and max_redacted_share must lie between 0 and 1")
        if not (self.max_entry_mb > 0 and self.max_object_mb > 0):
            raise ValueError("max_entry_mb and max_object_mb must be above 0")
