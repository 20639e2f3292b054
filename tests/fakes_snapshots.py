"""A store of snapshots in memory; ``contracts/snapshot_store.py`` keeps it honest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from quality_lib.errors import BadInput
from quality_lib.snapshots.audit import Action, AuditEntry
from quality_lib.snapshots.manifest import Manifest
from quality_lib.snapshots.ports import (
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


class InMemorySnapshots:
    def __init__(self) -> None:
        self._manifests: dict[str, dict[str, Manifest]] = {}
        self._numbers: dict[str, dict[str, int]] = {}
        self._files: dict[str, dict[str, bytes]] = {}
        self._health: dict[str, tuple[Health, str]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._audit: dict[str, list[AuditEntry]] = {}
        self._pinned: set[tuple[str, str]] = set()
        self._newest: dict[str, int] = {}

    def create(
        self,
        service: str,
        manifest: Manifest,
        files: Mapping[str, Path],
        health: Health = Health.PENDING,
    ) -> StoredSnapshot:
        for name in files:
            check_file_name(name)
        known = self._manifests.setdefault(service, {})
        key = manifest.snapshot_id
        if key not in known:
            try:
                self._files[key] = {name: path.read_bytes() for name, path in files.items()}
            except FileNotFoundError as error:
                raise BadInput("does not exist", file=error.filename) from None
            known[key] = manifest
            numbers = self._numbers.setdefault(service, {})
            numbers[key] = self._newest.get(service, 0) + 1
            self._newest[service] = numbers[key]
            self._health[key] = (health, _now())
            self._note(service, manifest.created_by, Action.CREATED, key)
        return self.get(service, key)

    def get(self, service: str, ref: str) -> StoredSnapshot:
        entry = find(self.list(service), service, ref)
        return StoredSnapshot(entry, self._manifests[service][entry.snapshot_id])

    def list(self, service: str) -> tuple[SnapshotEntry, ...]:
        manifests, numbers = self._manifests.get(service, {}), self._numbers.get(service, {})
        entries = [self._entry(service, numbers[key], key, m) for key, m in manifests.items()]
        return tuple(sorted(entries, key=lambda entry: -entry.number))

    def aliases(self, service: str) -> Mapping[str, str]:
        return dict(self._aliases.get(service, {}))

    def set_alias(self, service: str, alias: str, snapshot_id: str, reason: str, by: str) -> None:
        check_alias(alias)
        target = find(self.list(service), service, snapshot_id).snapshot_id
        aliases = self._aliases.setdefault(service, {})
        holder = aliases.get(alias, "")
        if alias == SERVING and holder not in {"", target}:
            self.set_alias(service, PREVIOUS, holder, f"{SERVING} moves to {target[:12]}", by)
        aliases[alias] = target
        detail = {"alias": alias, "from": holder, "reason": reason}
        self._note(service, by, Action.ALIAS_SET, target, detail)

    def set_health(
        self, service: str, snapshot_id: str, health: Health, reason: str, by: str
    ) -> None:
        entry = find(self.list(service), service, snapshot_id)
        self._health[entry.snapshot_id] = (health, _now())
        detail = {"from": entry.health.value, "to": health.value, "reason": reason}
        self._note(service, by, Action.HEALTH_SET, entry.snapshot_id, detail)

    def set_pinned(
        self, service: str, snapshot_id: str, is_pinned: bool, reason: str, by: str
    ) -> None:
        entry = find(self.list(service), service, snapshot_id)
        if entry.is_pinned == is_pinned:
            return
        key = (service, entry.snapshot_id)
        (self._pinned.add if is_pinned else self._pinned.discard)(key)
        action = Action.PINNED if is_pinned else Action.UNPINNED
        self._note(service, by, action, entry.snapshot_id, {"reason": reason})

    def remove(self, service: str, snapshot_id: str, reason: str, by: str) -> None:
        entry = find(self.list(service), service, snapshot_id)
        check_removable(entry)
        del self._manifests[service][entry.snapshot_id]
        self._note(service, by, Action.REMOVED, entry.snapshot_id, {"reason": reason})

    def audit(self, service: str) -> tuple[AuditEntry, ...]:
        return tuple(self._audit.get(service, ()))

    def fetch_file(self, snapshot: StoredSnapshot, name: str, to: Path) -> Path:
        check_file_name(name)
        files = self._files[snapshot.snapshot_id]
        if name not in files:
            raise BadInput(f"snapshot {snapshot.snapshot_id[:12]} has no file '{name}'")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(files[name])
        return to

    def _entry(self, service: str, number: int, key: str, manifest: Manifest) -> SnapshotEntry:
        health, health_at = self._health[key]
        aliases = self._aliases.get(service, {})
        return SnapshotEntry(
            snapshot_id=key,
            service=service,
            number=number,
            created_at=manifest.created_at,
            created_by=manifest.created_by,
            health=health,
            health_at=health_at,
            aliases=tuple(sorted(alias for alias, to in aliases.items() if to == key)),
            weights_root_sha256=manifest.weights.root_sha256,
            args_sha256=manifest.serving.args_sha256,
            image=manifest.image,
            vllm_version=manifest.serving.vllm_version,
            golden_digest=manifest.golden.digest if manifest.golden else None,
            files=tuple(sorted(self._files[key])),
            url="",
            is_pinned=(service, key) in self._pinned,
        )

    def _note(
        self,
        service: str,
        by: str,
        action: Action,
        key: str,
        detail: Mapping[str, str] | None = None,
    ) -> None:
        entry = AuditEntry(datetime.now(UTC), by, action, key, detail or {})
        self._audit.setdefault(service, []).append(entry)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
