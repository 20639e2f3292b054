"""What every job is given from outside: the clock, and who hears what it is doing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
Note = Callable[[str], None]


def utc_now() -> datetime:
    """Return the time in UTC; the default clock of the jobs."""
    return datetime.now(UTC)  # noqa: TID251 - the shell's clock, an argument everywhere else


def silent(_: str) -> None:
    """Say nothing."""
