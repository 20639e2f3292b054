"""The journal of a rollback as a file that survives a kill, and the lock of its service.

``<work_dir>/incidents/<service>/<incident id>/`` holds ``journal.json``, replaced whole and synced at
every change, and ``abort.json`` when somebody wants the starting weights back. The lock lies beside
the incidents: one rollback of a service at a time, whoever starts it.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from quality_lib.adapters.files.run_folder import write_whole
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.rollout.journal import SCHEMA, AbortRequest, Journal

JOURNAL, ABORT, LOCK = "journal.json", "abort.json", ".lock"


class AtWork(OutsideFailure):
    """Another process holds the service's lock."""


class IncidentFolder:
    """One incident on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether an incident was begun here."""
        return (self.path / JOURNAL).exists()

    def read(self) -> Journal:
        """Return the journal.

        Raises:
            BadInput: there is none, or it was written by another release or a person.
        """
        file = self.path / JOURNAL
        try:
            data: Any = json.loads(file.read_bytes())
            if not isinstance(data, dict) or data.get("schema") != SCHEMA:
                raise BadInput(
                    f"is no journal of schema {SCHEMA}",
                    file=file,
                    fix="finish the rollback with the release that began it",
                )
            return _journals().validate_python(data)
        except FileNotFoundError:
            raise BadInput(
                "holds no rollback",
                file=self.path,
                fix="'quality rollback plan' makes one and says where",
            ) from None
        except (OSError, ValueError, ValidationError) as error:
            raise BadInput(f"cannot be read: {error}", file=file) from error

    def plain(self) -> dict[str, Any]:
        """Return the journal as it lies on disk: for people and other programs."""
        plain: dict[str, Any] = _journals().dump_python(self.read(), mode="json")
        return plain

    def write(self, journal: Journal, now: datetime) -> Journal:
        """Keep the next revision and return it; when this returns it survives a kill.

        Raises:
            OutsideFailure: the disk refuses, or another process has written in between.
        """
        kept = self._kept_revision()
        if kept != journal.revision:
            raise OutsideFailure(
                f"{self.path / JOURNAL} has revision {kept}, expected was {journal.revision}: "
                "another process has written it; run the same command again"
            )
        following = replace(journal, revision=kept + 1, updated_at=now)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.path / JOURNAL, _journals().dump_json(following, indent=1))
        except OSError as error:
            raise OutsideFailure(
                f"{self.path / JOURNAL} cannot be written: {error}. Nothing further was done; free "
                "some space and run the same command again."
            ) from error
        return following

    def _kept_revision(self) -> int:
        try:
            return int(json.loads((self.path / JOURNAL).read_bytes())["revision"])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"cannot be read: {error}", file=self.path / JOURNAL) from error

    def request_abort(self, request: AbortRequest) -> AbortRequest:
        """Ask whoever works on the incident to go back; the first request stands."""
        if (known := self.abort_request()) is not None:
            return known
        try:
            write_whole(self.path / ABORT, _aborts().dump_json(request))
        except OSError as error:
            raise OutsideFailure(f"{self.path / ABORT} cannot be written: {error}") from error
        return request

    def abort_request(self) -> AbortRequest | None:
        """Return what somebody has asked for; an unreadable request is a request too."""
        file = self.path / ABORT
        try:
            return _aborts().validate_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            changed = datetime.fromtimestamp(file.stat().st_mtime).astimezone()
            return AbortRequest(changed, "unknown", f"{file} cannot be read")


class Incidents:
    """The incident folders of one service."""

    def __init__(self, work_dir: Path, service: str) -> None:
        if service in {"", ".", ".."} or "/" in service or "\\" in service:
            raise BadInput(f"'{service}' cannot be the name of a folder")
        self.path = work_dir / "incidents" / service

    def folder(self, incident_id: str) -> IncidentFolder:
        """Return an incident's folder, there or not."""
        if incident_id in {"", ".", ".."} or "/" in incident_id or "\\" in incident_id:
            raise BadInput(f"'{incident_id}' cannot be the id of an incident")
        return IncidentFolder(self.path / incident_id)

    def journals(self) -> tuple[tuple[IncidentFolder, Journal], ...]:
        """Return every incident that can be read, the newest first."""
        found = []
        for file in self.path.glob(f"*/{JOURNAL}"):
            folder = IncidentFolder(file.parent)
            try:
                found.append((folder, folder.read()))
            except BadInput:
                continue
        return tuple(sorted(found, key=lambda pair: pair[1].opened_at, reverse=True))

    def open(self) -> tuple[IncidentFolder, Journal] | None:
        """Return the incident in progress; ``None`` without one."""
        return next((pair for pair in self.journals() if not pair[1].is_closed), None)

    @contextmanager
    def locked(self, timeout_s: float = 0.0) -> Generator[None]:
        """Hold the service's lock; the kernel frees it when its holder dies.

        Raises:
            AtWork: another process holds it.
            OutsideFailure: the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise OutsideFailure(f"{self.path} cannot be written: {error}") from error
        try:
            with FileLock(self.path / LOCK, timeout=timeout_s):
                yield
        except Timeout:
            raise AtWork(
                f"another process works on a rollback of '{self.path.name}' right now; "
                "'quality rollback status' shows what it does"
            ) from None

    def is_locked(self) -> bool:
        """Whether a process works on one of them right now."""
        if not (self.path / LOCK).exists():
            return False
        try:
            with self.locked():
                return False
        except AtWork:
            return True


def incident_folder(path: Path) -> tuple[Incidents, IncidentFolder]:
    """Return the incident at a path with its service's folder."""
    folder = IncidentFolder(path.absolute())
    service = folder.read().service
    return Incidents(path.absolute().parents[2], service), folder


@cache
def _journals() -> TypeAdapter[Journal]:
    return TypeAdapter(Journal)


@cache
def _aborts() -> TypeAdapter[AbortRequest]:
    return TypeAdapter(AbortRequest)
