"""What may be removed and why, what stays and why (requirement D8). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from quality_lib.snapshots.ports import Health, SnapshotEntry


class Kind(StrEnum):
    """What is kept or removed."""

    SNAPSHOT = "snapshot"
    EVIDENCE = "evidence"
    RUN = "run"
    INCIDENT_FOLDER = "incident folder"
    LOG = "log"


@dataclass(frozen=True)
class Judged:
    """One thing with the decision about it."""

    kind: Kind
    service: str
    name: str
    """Id, path or address: what its remover needs."""
    at: str
    """When it was made or last changed, ISO 8601; empty when nobody knows."""
    is_removed: bool
    reason: str
    size: int | None = None
    """Bytes, where they are known without reading it."""


@dataclass(frozen=True)
class Aged:
    """Something whose age alone decides, unless it is held."""

    name: str
    at: datetime | None
    size: int | None = None
    held_by: str = ""
    """Why it must stay whatever its age; empty: nothing holds it."""


def judge_snapshots(
    entries: Sequence[SnapshotEntry],
    *,
    now: datetime,
    keep_healthy: int,
    keep_days: float,
    in_use: Collection[str] = (),
) -> tuple[Judged, ...]:
    """Decide about a service's snapshots; ``in_use`` holds the ids that open incidents name.

    Stays: what carries an alias, is pinned, is named by an open incident, is one of the newest healthy
    ones, or is young. Where the age is not known it is taken for young.
    """
    healthy = sorted(
        (entry for entry in entries if entry.health is Health.HEALTHY),
        key=lambda entry: entry.number,
        reverse=True,
    )
    newest = {entry.snapshot_id: rank for rank, entry in enumerate(healthy[:keep_healthy], 1)}
    return tuple(
        _snapshot(entry, now, newest, keep_healthy, keep_days, in_use) for entry in entries
    )


def judge_by_age(
    kind: Kind, service: str, things: Iterable[Aged], *, now: datetime, keep_days: float
) -> tuple[Judged, ...]:
    """Decide about things that only their age and their holders speak for, in the given order."""
    return tuple(_aged(kind, service, thing, now, keep_days) for thing in things)


def _snapshot(
    entry: SnapshotEntry,
    now: datetime,
    newest: dict[str, int],
    keep_healthy: int,
    keep_days: float,
    in_use: Collection[str],
) -> Judged:
    made = _time(entry.created_at)
    held = _holder(entry, newest, keep_healthy, in_use)
    young = _young(made, now, keep_days)
    reason = held or young or f"{entry.health.value}, {_days(made, now)}, nothing holds it"
    return Judged(
        Kind.SNAPSHOT,
        entry.service,
        entry.snapshot_id,
        entry.created_at,
        is_removed=not (held or young),
        reason=reason,
    )


def _holder(
    entry: SnapshotEntry, newest: dict[str, int], keep_healthy: int, in_use: Collection[str]
) -> str:
    if entry.aliases:
        return f"it is '{', '.join(entry.aliases)}'"
    if entry.is_pinned:
        return "it is pinned"
    if entry.snapshot_id in in_use:
        return "an open incident names it"
    if entry.snapshot_id in newest:
        rank = newest[entry.snapshot_id]
        return f"healthy number {rank} of the {keep_healthy} newest that are kept"
    return ""


def _aged(kind: Kind, service: str, thing: Aged, now: datetime, keep_days: float) -> Judged:
    young = _young(thing.at, now, keep_days)
    reason = thing.held_by or young or f"{_days(thing.at, now)}, kept for {keep_days:g}"
    return Judged(
        kind,
        service,
        thing.name,
        thing.at.isoformat(timespec="seconds") if thing.at else "",
        is_removed=not (thing.held_by or young),
        reason=reason,
        size=thing.size,
    )


def _young(at: datetime | None, now: datetime, keep_days: float) -> str:
    """Say why the age keeps it; empty when it is too old."""
    if at is None:
        return "its age is not known"
    if now - at < timedelta(days=keep_days):
        return f"{_days(at, now)}, kept for {keep_days:g}"
    return ""


def _days(at: datetime | None, now: datetime) -> str:
    return "of unknown age" if at is None else f"{(now - at).total_seconds() / 86400:.1f} days old"


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
