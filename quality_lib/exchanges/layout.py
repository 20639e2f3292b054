"""Where a log keeps the objects of an hour. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from quality_lib.exchanges.window import Window

LITELLM = ("%Y-%m-%d/%H/", "%Y-%m-%d/time-%H-", "%Y-%m-%d/batch_%H-")
"""LiteLLM's folders by hour, and the names in its folders by day. Without ``team_alias``."""
_ALLOWED = re.compile(r"%[YmdH]")
_HOUR = timedelta(hours=1)


def check_layout(layout: str) -> str:
    """Return the layout when it can be used.

    Raises:
        ValueError: when it knows an hour without its day, or other placeholders.
    """
    used = re.findall(r"%.?", layout)
    wrong = [place for place in used if not _ALLOWED.fullmatch(place)]
    if wrong:
        raise ValueError(f"layout {layout!r} holds {wrong[0]!r}; use %Y, %m, %d and %H")
    needed = ["%Y", "%m", "%d", "%H"]
    if used and not set(needed[: needed.index(max(used, key=needed.index)) + 1]) <= set(used):
        raise ValueError(
            f"layout {layout!r} is not unique: a day needs its month and year, an hour its day"
        )
    if layout.startswith("/") or ".." in layout.split("/"):
        raise ValueError(f"layout {layout!r} must start inside the log")
    return layout


def prefixes(
    layouts: Sequence[str], window: Window, lookback: timedelta, offset: timedelta = timedelta()
) -> tuple[str, ...]:
    """Return the prefixes that hold the window's objects, none inside another; ("",) for everything.

    ``offset`` is how far the clock that names the objects is ahead of UTC.
    """
    found = {
        _named(layout, hour)
        for layout in layouts or ("",)
        for hour in _hours(window.start - lookback + offset, window.end + offset)
    }
    return tuple(sorted(p for p in found if not any(p != q and p.startswith(q) for q in found)))


def _hours(start: datetime, end: datetime) -> Iterator[datetime]:
    hour = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour < end:
        yield hour
        hour += _HOUR


def _named(layout: str, hour: datetime) -> str:
    return _ALLOWED.sub(lambda m: hour.strftime(m[0]), layout)
