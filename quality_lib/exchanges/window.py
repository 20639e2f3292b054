"""The window of time that is scored, and its division into partitions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quality_lib.errors import BadInput
from quality_lib.exchanges.json_fields import when
from quality_lib.exchanges.log_limits import SampleLimits

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """``[start, end)``, both with a time zone.

    An object belongs to the window in which the store received it, so windows that follow each other
    divide the objects among them: none is read twice, and one that came late is read when it came.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a window needs times with a time zone")
        if not self.start < self.end:
            raise ValueError("a window must end after it starts")

    def holds(self, moment: datetime) -> bool:
        """Return whether the moment lies in the window."""
        return self.start <= moment < self.end

    def as_dict(self) -> dict[str, str]:
        """Return the window as JSON."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}


@dataclass(frozen=True)
class Listing:
    """What one listing of a window found."""

    objects: int
    size: int
    """Bytes, as they lie in the store."""


@dataclass(frozen=True)
class Partition:
    """The part of a window that one mapped task reads: the keys whose hash falls to its index."""

    window: Window
    index: int
    count: int
    key_rate: float
    """Share of the window's objects that is read, at most 1; the objects read stand for 1 / rate."""

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"there is no partition {self.index} of {self.count}")
        if not 0 < self.key_rate <= 1:
            raise ValueError("key_rate must be above 0 and at most 1")

    def as_dict(self) -> dict[str, Any]:
        """Return the partition as JSON, some 150 characters."""
        return {
            **self.window.as_dict(),
            "index": self.index,
            "count": self.count,
            "key_rate": self.key_rate,
        }


def partitions(
    window: Window, listing: Listing, count: int, limits: SampleLimits
) -> tuple[Partition, ...]:
    """Divide a window for ``count`` mapped tasks: disjoint, together complete, without key lists.

    An empty listing gives partitions too: objects may still become visible.
    """
    if count < 1:
        raise BadInput("a window needs at least one partition", fix="ask for 1 or more")
    rate = 1.0
    if listing.objects > limits.max_objects:
        rate = limits.max_objects / listing.objects
    most = limits.max_read_mb * (1 << 20)
    if listing.size > most:
        rate = min(rate, most / listing.size)
    return tuple(Partition(window, index, count, rate) for index in range(count))


def window_from(data: Any) -> Window:
    """Read what ``Window.as_dict`` wrote.

    Raises:
        BadInput: when it is something else.
    """
    start, end = (when(_mapping(data).get(name)) for name in ("start", "end"))
    if start is None or end is None:
        raise BadInput(
            "start or end of the window is no time", fix="write ISO 8601 with a time zone"
        )
    return _checked(Window, start, end)


def partition_from(data: Any) -> Partition:
    """Read what ``Partition.as_dict`` wrote.

    Raises:
        BadInput: when it is something else.
    """
    given = _mapping(data)
    numbers = [given.get(name) for name in ("index", "count", "key_rate")]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise BadInput("is no partition: index, count and key_rate must be numbers")
    index, count, rate = numbers
    return _checked(
        Partition, window_from(data), int(index or 0), int(count or 0), float(rate or 0)
    )


def _mapping(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise BadInput("is no window or partition: an object is needed")
    return data


def _checked(make: Callable[..., T], *values: Any) -> T:
    try:
        return make(*values)
    except ValueError as error:
        raise BadInput(str(error)) from None


def next_window(
    complete_to: datetime | None,
    now: datetime,
    *,
    length: timedelta,
    settle: timedelta,
    longest: timedelta,
) -> Window | None:
    """Return the window that is due: from the watermark to the last full ``length`` that has settled.

    None when nothing is due yet. After a long pause the window is cut to ``longest``, the newest part.
    """
    step = length.total_seconds()
    if step <= 0:
        raise ValueError("a window must be longer than nothing")
    ready = (now - settle).timestamp()
    end = datetime.fromtimestamp(ready - ready % step, tz=now.tzinfo)
    start = complete_to if complete_to is not None else end - length
    start = max(start, end - longest)
    return Window(start, end) if start < end else None
