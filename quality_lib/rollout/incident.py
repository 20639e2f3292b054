"""An incident, the history of them, and what it says of the next one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

State = Literal["open", "rolling", "done", "aborted", "failed"]
"""``open``: decided, nothing begun; ``rolling``: under way; the others are closed."""
CLOSED: frozenset[str] = frozenset({"done", "aborted", "failed"})
DAY = timedelta(hours=24)


@dataclass(frozen=True)
class IncidentRecord:
    """One incident, from the decision to the post-mortem."""

    incident_id: str
    service: str
    state: State
    opened_at: datetime
    closed_at: datetime | None
    """None while it is in progress."""
    bad_deployment_key: str | None
    bad_snapshot_id: str | None
    """The snapshot whose deployment was found bad; None when it was never registered."""
    target_snapshot_id: str | None
    mode: str
    reason: str
    url: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether nothing more happens in it."""
        return self.state in CLOSED


@dataclass(frozen=True)
class IncidentHistory:
    """A service's incidents, in any order; the same incident twice counts once."""

    records: tuple[IncidentRecord, ...] = ()

    @classmethod
    def of(cls, service: str, records: Iterable[IncidentRecord]) -> IncidentHistory:
        """Return the history of one service out of any records, the newest first.

        Of two records of the same incident the closed one is the later.
        """
        kept: dict[str, IncidentRecord] = {}
        for record in records:
            if record.service != service:
                continue
            known = kept.get(record.incident_id)
            if known is None or (record.is_closed and not known.is_closed):
                kept[record.incident_id] = record
        newest_first = sorted(
            kept.values(), key=lambda r: (r.opened_at, r.incident_id), reverse=True
        )
        return cls(tuple(newest_first))

    @property
    def in_progress(self) -> IncidentRecord | None:
        """Return the incident that is not closed; of several, the one that was opened first."""
        going_on = [record for record in self.records if not record.is_closed]
        return min(going_on, key=lambda r: (r.opened_at, r.incident_id)) if going_on else None

    @property
    def last_end(self) -> datetime | None:
        """Return when the last incident ended."""
        ends = [_end(record) for record in self.records if record.is_closed]
        return max(ends) if ends else None

    def cool_down_until(self, minutes: float) -> datetime | None:
        """Return until when no other rollback may start; None without an earlier incident."""
        end = self.last_end
        return None if end is None else end + timedelta(minutes=minutes)

    def opened_within(self, now: datetime, period: timedelta = DAY) -> int:
        """Return how many incidents were opened in the period that ends now, or after it."""
        return sum(record.opened_at > now - period for record in self.records)


def incident_id(service: str, deployment_key: str | None, history: IncidentHistory) -> str:
    """Return the name of the next incident: the same for everybody who sees the same history.

    It holds the number of closed incidents, so it stays the same until the incident is closed.
    """
    taken = {record.incident_id for record in history.records}
    number = sum(record.is_closed for record in history.records)
    # A history that was cut short counts too few of them: an id is never given twice.
    while (name := f"{service}-{(deployment_key or 'unknown')[:8]}-{number}") in taken:
        number += 1
    return name


def _end(record: IncidentRecord) -> datetime:
    """Return the end of a closed incident; without one, its beginning is the least that is known."""
    return record.closed_at or record.opened_at
