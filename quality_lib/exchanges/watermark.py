"""Up to where a log was read, kept between windows in Airflow's state store. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.exchanges.json_fields import when
from quality_lib.exchanges.key_hash import KeyHash
from quality_lib.exchanges.window import Partition

MOST_MARKS = 4096
"""Marks of objects kept: 45 kB of JSON at most."""


_PLACES = 1 << 24


@dataclass(frozen=True)
class Watermark:
    """The end of the last complete window, and what was read of its last stretch.

    Stores date an object by the start of its upload, so one may appear in a stretch that was read
    already. Such an object is recognised because its mark is not among those that were read.
    """

    complete_to: datetime
    seen: frozenset[str] = frozenset()
    seen_rate: float = 1.0
    """Objects whose hash lies below this have their mark in ``seen`` when they were read; of the
    others nothing is known, and they are not looked at again."""

    def is_late(self, hashed: KeyHash) -> bool:
        """Return whether an object of the last stretch was not there when that was read."""
        return hashed.position < self.seen_rate and hashed.mark not in self.seen

    def as_dict(self) -> dict[str, Any]:
        """Return the watermark as bounded JSON."""
        return {
            "complete_to": self.complete_to.isoformat(),
            "seen": sorted(self.seen),
            "seen_rate": self.seen_rate,
        }


def watermark_from(data: Any) -> Watermark | None:
    """Read what ``as_dict`` wrote; None gives None, for a log that was never read.

    Raises:
        BadInput: when it is something else.
    """
    if data is None:
        return None
    given = data if isinstance(data, Mapping) else {}
    moment, seen, rate = (
        when(given.get("complete_to")),
        given.get("seen", []),
        given.get("seen_rate", 1.0),
    )
    if (
        moment is None
        or not isinstance(seen, list)
        or not all(isinstance(mark, str) for mark in seen)
        or isinstance(rate, bool)
        or not isinstance(rate, int | float)
    ):
        raise BadInput("is no watermark", fix="delete it from the state store: reading starts anew")
    return Watermark(moment, frozenset(seen), min(max(float(rate), 0.0), 1.0))


def advanced(
    before: Watermark | None, partition: Partition, seen: Iterable[str], lookback: timedelta
) -> Watermark:
    """Return the watermark after all partitions of a window were read.

    ``partition`` is any of them, ``seen`` what all of them together reported.
    """
    rate = partition.key_rate
    if before is not None and before.complete_to > partition.window.end - lookback:
        rate = min(rate, before.seen_rate)
    marks = dict(_split(entry) for entry in seen)
    if len(marks) > MOST_MARKS:
        # Keep the marks of the lowest positions; what lies above is not looked at again.
        ranked = sorted(marks.values())
        rate = min(rate, ranked[MOST_MARKS])
    kept = frozenset(mark for mark, place in marks.items() if place < rate)
    return Watermark(partition.window.end, kept, rate)


def seen_entry(hashed: KeyHash) -> str:
    """Return what a partition reports of an object that it read: its mark and rounded position."""
    return f"{hashed.mark}{int(hashed.position * _PLACES):06x}"


def _split(entry: str) -> tuple[str, float]:
    return entry[:-6], int(entry[-6:], 16) / _PLACES
