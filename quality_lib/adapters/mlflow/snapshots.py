"""Snapshots in MLflow: the only place that knows MLflow's words for them.

A snapshot is a *logged model* (its files) with a *version* of a registered model pointing at it.
The version is made last and in one request, so a reader sees a snapshot whole or not at all.
``design/004-snapshot-in-mlflow.md`` tells why.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.audit import MlflowAudit
from quality_lib.adapters.mlflow.server import MlflowServer, slug
from quality_lib.adapters.mlflow.snapshot_files import (
    check_baseline,
    delete_files,
    stage,
    upload,
)
from quality_lib.adapters.mlflow.tags import (
    T_HEALTH,
    T_HEALTH_AT,
    T_ID,
    T_MODEL,
    T_PINNED,
    T_SERVICE,
    entry_of,
    files_of,
    tags_of,
)
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.snapshots.audit import Action, AuditEntry
from quality_lib.snapshots.manifest import Manifest
from quality_lib.snapshots.ports import (
    MANIFEST_NAME,
    PREVIOUS,
    SERVING,
    Health,
    SnapshotEntry,
    StoredSnapshot,
    check_alias,
    check_file_name,
    check_removable,
    find,
)


class MlflowSnapshots:
    """``SnapshotStore`` over an MLflow server (or a file or database address)."""

    def __init__(self, uri: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._server = MlflowServer(uri)
        self._clock = clock
        self._trail = MlflowAudit(self._server)

    def create(
        self,
        service: str,
        manifest: Manifest,
        files: Mapping[str, Path],
        health: Health = Health.PENDING,
    ) -> StoredSnapshot:
        """Keep a manifest with its files; the same manifest again returns what is there."""
        for name in files:
            check_file_name(name)
        snapshot_id = manifest.snapshot_id
        with self._server.session() as client:
            there = self._with_id(client, service, snapshot_id)
            if there is None:
                entry = _entry_of_creation(manifest)
                with self._trail.action(client, service, entry):
                    self._write(client, service, manifest, files, health)
                there = self._with_id(client, service, snapshot_id)
            if there is None:
                raise OutsideFailure(
                    f"{self._server.name} accepted snapshot {snapshot_id[:12]} but does not show it"
                )
        return self.get(service, there.snapshot_id)

    def get(self, service: str, ref: str) -> StoredSnapshot:
        """Return a snapshot by alias, number, id or its beginning; its manifest's hash is checked."""
        with self._server.session() as client:
            entry, version = self._find(client, service, ref)
            with self._downloaded(client, version, MANIFEST_NAME) as file:
                content = file.read_bytes()
        where = f"{MANIFEST_NAME} of snapshot {entry.snapshot_id[:12]}"
        found = hashlib.sha256(content).hexdigest()
        if found != entry.snapshot_id:
            raise BadInput(
                f"was altered: its SHA-256 is {found}, the snapshot's id is {entry.snapshot_id}",
                file=where,
                fix="do not use this snapshot; register the service again",
            )
        return StoredSnapshot(entry, Manifest.from_json(content, source=where))

    def list(self, service: str) -> tuple[SnapshotEntry, ...]:
        """Return a service's snapshots, newest first."""
        with self._server.session() as client:
            return self._entries(client, service)

    def aliases(self, service: str) -> Mapping[str, str]:
        """Return alias → snapshot id."""
        return {alias: entry.snapshot_id for entry in self.list(service) for alias in entry.aliases}

    def set_alias(self, service: str, alias: str, snapshot_id: str, reason: str, by: str) -> None:
        """Point an alias at a snapshot and read it back; ``previous`` follows ``serving``."""
        check_alias(alias)
        with self._server.session() as client:
            entries = self._entries(client, service)
            target = find(entries, service, snapshot_id)
            holder = next((entry for entry in entries if alias in entry.aliases), None)
            if alias == SERVING and holder is not None and holder != target:
                why = f"{SERVING} moves to {target.snapshot_id[:12]}"
                self._point(client, service, PREVIOUS, holder, entries, why, by)
            self._point(client, service, alias, target, entries, reason, by)

    def set_health(
        self, service: str, snapshot_id: str, health: Health, reason: str, by: str
    ) -> None:
        """Write down what the golden runs say of a snapshot."""
        with self._server.session() as client:
            entry = find(self._entries(client, service), service, snapshot_id)
            now = self._clock()
            record = AuditEntry(
                now,
                by,
                Action.HEALTH_SET,
                entry.snapshot_id,
                {"from": entry.health.value, "to": health.value, "reason": reason},
            )
            with self._trail.action(client, service, record):
                name, number = _registered(service), str(entry.number)
                # The time first: a crash in between leaves the old word with a newer time.
                client.set_model_version_tag(name, number, T_HEALTH_AT, _iso(now))
                client.set_model_version_tag(name, number, T_HEALTH, health.value)

    def set_pinned(
        self, service: str, snapshot_id: str, is_pinned: bool, reason: str, by: str
    ) -> None:
        """Say whether a snapshot is kept for good; the same again changes nothing."""
        with self._server.session() as client:
            entry = find(self._entries(client, service), service, snapshot_id)
            if entry.is_pinned == is_pinned:
                return
            action = Action.PINNED if is_pinned else Action.UNPINNED
            record = AuditEntry(self._clock(), by, action, entry.snapshot_id, {"reason": reason})
            with self._trail.action(client, service, record):
                name, number = _registered(service), str(entry.number)
                if is_pinned:
                    client.set_model_version_tag(name, number, T_PINNED, by)
                else:
                    client.delete_model_version_tag(name, number, T_PINNED)

    def remove(self, service: str, snapshot_id: str, reason: str, by: str) -> None:
        """Remove a snapshot; MLflow keeps deleted files until its own garbage collection."""
        with self._server.session() as client:
            entry = find(self._entries(client, service), service, snapshot_id)
            check_removable(entry)
            name = _registered(service)
            record = AuditEntry(
                self._clock(), by, Action.REMOVED, entry.snapshot_id, {"reason": reason}
            )
            with self._trail.action(client, service, record):
                # Retired first, so that nobody chooses what is half gone; the version last, for it is
                # what a second try finds. Two writers may have made two versions of one snapshot.
                same = [v for v in _versions(client, name) if v.tags[T_ID] == entry.snapshot_id]
                for version in same:
                    client.set_model_version_tag(
                        name, version.version, T_HEALTH, Health.RETIRED.value
                    )
                for version in same:
                    delete_files(client, version.tags[T_MODEL])
                    client.delete_model_version(name, version.version)

    def audit(self, service: str) -> tuple[AuditEntry, ...]:
        """Return everything done to a service's snapshots, oldest first."""
        with self._server.session() as client:
            return self._trail.entries(client, service)

    def fetch_file(self, snapshot: StoredSnapshot, name: str, to: Path) -> Path:
        """Copy one file of a snapshot to the path ``to`` and check its hash."""
        check_file_name(name)
        service = snapshot.entry.service
        short = snapshot.snapshot_id[:12]
        with self._server.session() as client:
            _, version = self._find(client, service, snapshot.snapshot_id)
            records = files_of(version)
            check_baseline(snapshot, records)
            if name not in records:
                known = ", ".join(sorted(records)) or "none"
                raise BadInput(
                    f"snapshot {short} has no file '{name}'", fix=f"it has these: {known}"
                )
            with self._downloaded(client, version, name) as file:
                found = hashlib.sha256(file.read_bytes()).hexdigest()
                if found != records[name].sha256:
                    raise BadInput(
                        f"was altered: its SHA-256 is {found}, recorded is {records[name].sha256}",
                        file=f"{name} of snapshot {short}",
                        fix="do not use this snapshot; register the service again",
                    )
                try:
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, to)
                except OSError as error:
                    raise OutsideFailure(
                        f"{to}: cannot be written: {error.strerror or error}"
                    ) from error
        return to

    def _write(
        self,
        client: Any,
        service: str,
        manifest: Manifest,
        files: Mapping[str, Path],
        health: Health,
    ) -> None:
        from mlflow.exceptions import MlflowException

        snapshot_id = manifest.snapshot_id
        experiment = self._server.experiment(client, f"quality/{service}/snapshots")
        with tempfile.TemporaryDirectory(prefix="snapshot-") as temporary:
            records = stage(Path(temporary), manifest, files)
            model_id = upload(client, experiment, service, snapshot_id, temporary)
        name = _registered(service)
        try:
            client.create_registered_model(name, tags={T_SERVICE: service})
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        client.create_model_version(
            name,
            source=f"models:/{model_id}",
            model_id=model_id,
            await_creation_for=0,  # READY at once: MLflow never looks at the source
            tags=tags_of(service, manifest, records, health, model_id, _iso(self._clock())),
            description=f"Snapshot {snapshot_id[:12]} of {service}, made by {manifest.created_by}.",
        )

    def _point(
        self,
        client: Any,
        service: str,
        alias: str,
        target: SnapshotEntry,
        entries: tuple[SnapshotEntry, ...],
        reason: str,
        by: str,
    ) -> None:
        name = _registered(service)
        holder = next((e.snapshot_id for e in entries if alias in e.aliases), "")
        record = AuditEntry(
            self._clock(),
            by,
            Action.ALIAS_SET,
            target.snapshot_id,
            {"alias": alias, "from": holder, "reason": reason},
        )
        with self._trail.action(client, service, record):
            client.set_registered_model_alias(name, alias, str(target.number))
            # There is no compare-and-set in MLflow: reading back is how a second writer shows.
            found = client.get_model_version_by_alias(name, alias)
            if int(found.version) != target.number:
                raise OutsideFailure(
                    f"alias '{alias}' of '{service}' was set to snapshot "
                    f"{target.snapshot_id[:12]} but reads back as number {found.version}: "
                    "something else moves it at the same time"
                )

    def _entries(self, client: Any, service: str) -> tuple[SnapshotEntry, ...]:
        name = _registered(service)
        aliases = _aliases_by_number(client, name)
        entries = [
            entry_of(
                version,
                aliases.get(int(version.version), ()),
                self._server.page(f"models/{name}/versions/{version.version}"),
            )
            for version in _versions(client, name)
        ]
        # Two writers at once may both have made it; the first one is the snapshot.
        first = {entry.snapshot_id: entry for entry in reversed(entries)}
        return tuple(sorted(first.values(), key=lambda entry: -entry.number))

    def _find(self, client: Any, service: str, ref: str) -> tuple[SnapshotEntry, Any]:
        entry = find(self._entries(client, service), service, ref)
        return entry, client.get_model_version(_registered(service), str(entry.number))

    def _with_id(self, client: Any, service: str, snapshot_id: str) -> SnapshotEntry | None:
        entries = self._entries(client, service)
        return next((entry for entry in entries if entry.snapshot_id == snapshot_id), None)

    @contextmanager
    def _downloaded(self, client: Any, version: Any, name: str) -> Generator[Path]:
        with tempfile.TemporaryDirectory(prefix="snapshot-") as temporary:
            short = version.tags[T_ID][:12]
            file = self._server.download(client, version.tags[T_MODEL], name, Path(temporary))
            if file is None:
                raise BadInput(
                    "is not in MLflow any more",
                    file=f"{name} of snapshot {short}",
                    fix="do not use this snapshot; register the service again",
                )
            yield file


def _registered(service: str) -> str:
    return f"{slug(service)}-serving"


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _versions(client: Any, name: str) -> list[Any]:
    """Return MLflow's versions that are ours, newest first."""
    versions: list[Any] = []
    token = None
    while True:
        page = client.search_model_versions(f"name='{name}'", max_results=1000, page_token=token)
        versions += page
        token = page.token
        if not token:
            break
    ours = [version for version in versions if T_ID in version.tags]
    return sorted(ours, key=lambda version: -int(version.version))


def _aliases_by_number(client: Any, name: str) -> dict[int, list[str]]:
    from mlflow.exceptions import MlflowException

    try:
        # Only here: a search for versions gives every one of them an empty list of aliases.
        found = client.get_registered_model(name).aliases
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return {}
        raise
    numbers: dict[int, list[str]] = {}
    for alias, number in found.items():
        numbers.setdefault(int(number), []).append(alias)
    return numbers


def _entry_of_creation(manifest: Manifest) -> AuditEntry:
    at = datetime.fromisoformat(manifest.created_at)
    return AuditEntry(at, manifest.created_by, Action.CREATED, manifest.snapshot_id)
