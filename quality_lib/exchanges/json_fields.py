"""Typed looks into JSON that somebody else wrote: what has another type counts as missing. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_MILLISECONDS = 1e11
"""Seconds reach this in the year 5138: a greater number counts milliseconds."""
_MICROSECONDS = 1e14
LARGEST_COUNT = 2**53
"""Up to here a float holds every whole number; more tokens than that were never counted."""


def text(value: Any) -> str:
    """Return a text, or "" for anything else."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the mappings of a list, or none for anything else."""
    return tuple(v for v in value if isinstance(v, Mapping)) if isinstance(value, list) else ()


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, or none for anything else."""
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def count(value: Any) -> int | None:
    """Return a whole number from 0 to ``LARGEST_COUNT``, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= LARGEST_COUNT and int(value) == value else None


def flag(value: Any) -> bool | None:
    """Return a truth value, also of the texts ``true`` and ``false``; else None."""
    if isinstance(value, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def unpacked(value: Any) -> Any:
    """Return what a text of JSON holds when that is an object or a list, else the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def when(value: Any) -> datetime | None:
    """Return the moment that a number since 1970 or a text in ISO 8601 names; without zone it is UTC."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            return None
        scale = 1e6 if value >= _MICROSECONDS else 1e3 if value >= _MILLISECONDS else 1.0
        return datetime.fromtimestamp(value / scale, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def iso(value: Any) -> str:
    """Return the same moment as text in ISO 8601, or "" when it names none."""
    moment = when(value)
    return moment.isoformat() if moment else ""


def seconds_between(start: Any, end: Any) -> float | None:
    """Return the seconds from one moment to a later one, or None."""
    first, last = when(start), when(end)
    if first is None or last is None or last < first:
        return None
    return (last - first).total_seconds()
