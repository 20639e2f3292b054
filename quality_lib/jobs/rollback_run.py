"""One process at work on a rollback: its journal, its notes, and an ear for an abort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from quality_lib.adapters.files.journal import IncidentFolder
from quality_lib.errors import BadInput, OutsideFailure, QualityError
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.journal import AbortRequest, Event, Journal, Target
from quality_lib.rollout.machine import is_ours
from quality_lib.rollout.ports import RouteTable
from quality_lib.settings import RollbackSettings

EAR_S = 1.0
"""So often a wait looks whether somebody wants to go back."""


class CheckFailed(QualityError):
    """A check of the rollback itself found bad quality: the way leads back."""

    exit_code = 1


class NoTarget(CheckFailed):
    """No candidate passed its validation."""


class AbortRequested(CheckFailed):
    """Somebody wants the starting weights back."""


class Run:
    """A rollback under the service's lock; every change of its journal goes through here."""

    def __init__(self, parts: Parts, folder: IncidentFolder, journal: Journal) -> None:
        self.parts = parts
        self.folder = folder
        self.journal = journal
        self.step = ""
        self.is_going_back = False
        """Whether this is the abort: then there is nothing more to hear."""

    @property
    def limits(self) -> RollbackSettings:
        """The service's settings of the rollback."""
        return self.parts.service.rollback

    @property
    def target(self) -> Target:
        """The validated target."""
        if self.journal.target is None:
            raise BadInput("no target was validated yet", fix="do 'validate' first")
        return self.journal.target

    def path(self, name: str) -> Path:
        """Return a place for a step's files."""
        return self.folder.path / name

    def save(self, journal: Journal, what: str = "", **detail: Any) -> None:
        """Keep a changed journal; with ``what``, as a line of the timeline too."""
        now = self.parts.clock()
        if what:
            journal = replace(
                journal, events=(*journal.events, Event(now, self.step, what, detail))
            )
            self.parts.note(what)
        self.journal = self.folder.write(journal, now)

    def tell(self, what: str, **detail: Any) -> None:
        """Add a line to the timeline."""
        self.save(self.journal, what, **detail)

    def hear(self) -> None:
        """Take an abort request over into the journal.

        Raises:
            AbortRequested: there is one.
        """
        request = self.folder.abort_request()
        if request is None or self.is_going_back:
            return
        if self.journal.abort is None:
            self.save(
                replace(self.journal, abort=request),
                f"abort asked for by {request.by}: {request.reason}",
            )
        raise AbortRequested(f"abort asked for by {request.by}: {request.reason}")

    def wait(self, seconds: float) -> None:
        """Sleep in pieces, with an ear for an abort."""
        end = self.parts.clock() + timedelta(seconds=seconds)
        self.hear()
        while (left := (end - self.parts.clock()).total_seconds()) > 0:
            self.parts.sleep(min(EAR_S, left))
            self.hear()

    def real_table(self) -> RouteTable:
        """Return what the route really runs, if this rollback may change it.

        Raises:
            OutsideFailure: somebody else has changed it since.
        """
        table = self.parts.route.table()
        if not is_ours(self.journal, table):
            shown = ", ".join(f"{b.name} {b.address} {b.weight} %" for b in table.backends)
            raise OutsideFailure(
                f"the route of '{self.journal.service}' was changed by somebody else: {shown}. "
                "Put it back and run the same command again, or abort the rollback"
            )
        return table

    def put(self, table: RouteTable, what: str) -> None:
        """Put a table into force unless it is, and remember since when.

        It is written down before and after, so that no table was ever in force of which the timeline
        does not know.
        """
        weights = dict(table.weights())
        if self.parts.route.table() != table:
            self.save(self.journal, f"about to set: {what}", weights=weights)
            self.parts.route.apply(table)
        if self.journal.table != table:
            now = self.parts.clock()
            self.save(
                replace(self.journal, table=table, moved_at=now), f"set: {what}", weights=weights
            )

    def alive(self, addresses: Mapping[str, str]) -> frozenset[str]:
        """Return the names of those whose servers answer that they are well."""
        return frozenset(n for n, address in addresses.items() if self.parts.is_alive(address))

    def tell_store(self) -> None:
        """Tell the incident store how it stands; a silent one is told at the next occasion."""
        try:
            self.parts.incidents.update(incident_record(self.journal))
        except QualityError as error:
            self.parts.note(f"the incident store could not be told: {error}")


def incident_record(journal: Journal) -> IncidentRecord:
    """Return the incident as the store keeps it."""
    return IncidentRecord(
        incident_id=journal.incident_id,
        service=journal.service,
        state=journal.state,
        opened_at=journal.opened_at,
        closed_at=journal.closed_at,
        bad_deployment_key=journal.bad_deployment_key,
        bad_snapshot_id=journal.bad_snapshot_id,
        target_snapshot_id=journal.target.snapshot_id if journal.target else None,
        mode=journal.mode,
        reason=journal.reason,
        url=journal.url,
    )


def request_of(run: Run, by: str, reason: str) -> AbortRequest:
    """Return the abort request that stands, making one if there is none."""
    known = run.folder.abort_request() or run.journal.abort
    return known or AbortRequest(run.parts.clock(), by, reason)
