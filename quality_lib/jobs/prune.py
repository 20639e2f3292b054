"""Remove what is old and held by nothing: planned first, then done item by item (D8).

The plan is made anew every time from what is there, so a prune that broke off is completed by the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quality_lib import wiring
from quality_lib.adapters.logs.old_objects import (
    is_evidence,
    is_exchange_log,
    objects_at,
    remove_objects,
)
from quality_lib.adapters.machine.old_folders import incident_folders, remove_folder, run_folders
from quality_lib.errors import QualityError
from quality_lib.jobs.clock import Note
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.ports import IncidentStore
from quality_lib.settings import ServiceSettings, Settings
from quality_lib.snapshots.ports import SnapshotStore
from quality_lib.snapshots.retention import Aged, Judged, Kind, judge_by_age, judge_snapshots

INCIDENTS_SEEN = 1000


@dataclass(frozen=True)
class PrunePlan:
    """Everything that was looked at, with the decision about each."""

    items: tuple[Judged, ...]
    problems: tuple[str, ...]
    """What could not be looked at; nothing of it is removed."""

    @property
    def going(self) -> tuple[Judged, ...]:
        """What is removed."""
        return tuple(item for item in self.items if item.is_removed)


@dataclass(frozen=True)
class Pruned:
    """What came of a plan."""

    removed: tuple[Judged, ...]
    failed: tuple[tuple[Judged, str], ...]


def plan_prune(
    settings: Settings, services: Iterable[str], now: datetime, note: Note = lambda _: None
) -> PrunePlan:
    """Look at everything of the services; what cannot be looked at is told and stays."""
    items: list[Judged] = []
    problems: list[str] = []
    snapshots, incidents = wiring.snapshot_store(settings), wiring.incident_store(settings)
    for name in services:
        note(f"looking at {name}")
        for what, look in (
            ("snapshots", lambda n=name: _snapshots(settings, snapshots, incidents, n, now)),
            ("evidence", lambda n=name: _evidence(settings, incidents, n, now)),
            ("logs", lambda n=name: _logs(settings, n, now)),
            ("run folders", lambda n=name: _folders(settings, n, now)),
        ):
            try:
                items += look()
            except QualityError as error:
                problems.append(f"{what} of {name}: {error}")
    return PrunePlan(tuple(items), tuple(problems))


def prune(settings: Settings, plan: PrunePlan, by: str, note: Note = lambda _: None) -> Pruned:
    """Remove what the plan says, one after the other; a failure leaves the others to be removed."""
    store = wiring.snapshot_store(settings)
    removed: list[Judged] = []
    failed: list[tuple[Judged, str]] = []
    for item in plan.going:
        try:
            _remove(store, item, by)
        except QualityError as error:
            failed.append((item, str(error)))
            continue
        note(f"removed {item.kind.value} {item.name}: {item.reason}")
        removed.append(item)
    return Pruned(tuple(removed), tuple(failed))


def named_by_open(records: Iterable[IncidentRecord]) -> frozenset[str]:
    """Return the snapshots that incidents in progress name."""
    return frozenset(
        snapshot_id
        for record in records
        if not record.is_closed
        for snapshot_id in (record.bad_snapshot_id, record.target_snapshot_id)
        if snapshot_id
    )


def _remove(store: SnapshotStore, item: Judged, by: str) -> None:
    match item.kind:
        case Kind.SNAPSHOT:
            store.remove(item.service, item.name, f"prune: {item.reason}", by)
        case Kind.RUN | Kind.INCIDENT_FOLDER:
            remove_folder(Path(item.name))
        case Kind.EVIDENCE | Kind.LOG:
            remove_objects([item.name])


def _snapshots(
    settings: Settings, store: SnapshotStore, incidents: IncidentStore, service: str, now: datetime
) -> tuple[Judged, ...]:
    # Incidents first: with no word about them no snapshot is judged at all.
    in_use = named_by_open(incidents.history(service, INCIDENTS_SEEN))
    return judge_snapshots(
        store.list(service),
        now=now,
        keep_healthy=settings.retention.keep_healthy,
        keep_days=settings.retention.snapshot_days,
        in_use=in_use,
    )


def _evidence(
    settings: Settings, incidents: IncidentStore, service: str, now: datetime
) -> tuple[Judged, ...]:
    place = settings.service(service).evidence.ship_to
    if place is None:
        return ()
    going_on = {
        r.incident_id for r in incidents.history(service, INCIDENTS_SEEN) if not r.is_closed
    }
    things = (
        Aged(
            address,
            found.changed_at,
            found.size,
            "its incident is not closed" if found.key.split("/")[1] in going_on else "",
        )
        for address, found in objects_at(place, f"{service}/", is_evidence)
    )
    days = settings.retention.evidence_days
    return judge_by_age(Kind.EVIDENCE, service, things, now=now, keep_days=days)


def _logs(settings: Settings, service: str, now: datetime) -> tuple[Judged, ...]:
    days, place = settings.retention.log_days, settings.service(service).gates.log.ship_to
    if days is None or place is None:
        return ()
    things = (
        Aged(address, found.changed_at, found.size)
        for address, found in objects_at(place, f"{service}/", is_exchange_log)
    )
    return judge_by_age(Kind.LOG, service, things, now=now, keep_days=days)


def _folders(settings: Settings, service: str, now: datetime) -> Iterator[Judged]:
    work_dir, retention = settings.stores.work_dir, settings.retention
    runs = (
        Aged(str(one.path), one.changed, None, one.held_by)
        for one in run_folders(work_dir, {folder_name(service): service})
    )
    yield from judge_by_age(Kind.RUN, service, runs, now=now, keep_days=retention.run_days)
    told = (
        Aged(str(one.path), one.changed, None, one.held_by)
        for one in incident_folders(work_dir, service)
    )
    # The evidence lies in them until it was uploaded.
    days = max(retention.run_days, retention.evidence_days if _stays_here(settings, service) else 0)
    yield from judge_by_age(Kind.INCIDENT_FOLDER, service, told, now=now, keep_days=days)


def _stays_here(settings: Settings, service: str) -> bool:
    chosen: ServiceSettings = settings.service(service)
    return chosen.rollback.core_dump or chosen.evidence.ship_to is None


def folder_name(service: str) -> str:
    """Return the folder of a service's runs, as the DAGs name it."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", service).strip("-")[:120]
    if re.fullmatch(r"[A-Za-z0-9_.:+-]{1,120}", service):
        return plain or "run"
    return f"{plain[:100]}-{hashlib.sha256(service.encode()).hexdigest()[:8]}".lstrip("-")
