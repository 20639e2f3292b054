"""What the product asks of a store of snapshots. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from quality_lib.errors import BadInput
from quality_lib.snapshots.audit import AuditEntry
from quality_lib.snapshots.manifest import ImageRecord, Manifest, deployment_key

SERVING = "serving"
LAST_HEALTHY = "last-healthy"
CANDIDATE = "candidate"
PREVIOUS = "previous"
ALIASES = (SERVING, LAST_HEALTHY, CANDIDATE, PREVIOUS)
"""Every alias there is. ``previous`` follows ``serving`` by itself."""

MANIFEST_NAME = "manifest.json"
BASELINE_FOLDER = "baseline/"
"""The baseline's files are kept under this name; the manifest's root hash covers them."""
MIN_PREFIX = 6


class Health(StrEnum):
    """What the golden runs say of a snapshot."""

    PENDING = "pending"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RETIRED = "retired"


@dataclass(frozen=True)
class SnapshotEntry:
    """A snapshot as a list shows it."""

    snapshot_id: str
    service: str
    number: int
    """Counts a service's snapshots up from 1 and is never given twice; for people, the id is the name."""
    created_at: str
    created_by: str
    health: Health
    health_at: str
    aliases: tuple[str, ...]
    weights_root_sha256: str
    args_sha256: str | None
    image: ImageRecord
    vllm_version: str | None
    golden_digest: str | None
    files: tuple[str, ...]
    """Names of the files kept with it, beside the manifest."""
    url: str
    """Where a person looks at it; empty where there is no page."""
    is_pinned: bool = False
    """Whether somebody wants it kept for good."""

    @property
    def deployment_key(self) -> str:
        """The key that golden runs of the same deployment carry."""
        return deployment_key(self.weights_root_sha256, self.args_sha256, self.image)


@dataclass(frozen=True)
class StoredSnapshot:
    """A snapshot with its manifest, whose hash was checked when it was read."""

    entry: SnapshotEntry
    manifest: Manifest

    @property
    def snapshot_id(self) -> str:
        """SHA-256 of the manifest."""
        return self.entry.snapshot_id


class SnapshotStore(Protocol):
    """Where snapshots are kept.

    A snapshot that was written only in part is never seen by a reader, and writing it again with
    the same manifest completes it. Every call raises OutsideFailure when the store does not answer.
    """

    def create(
        self,
        service: str,
        manifest: Manifest,
        files: Mapping[str, Path],
        health: Health = Health.PENDING,
    ) -> StoredSnapshot:
        """Keep a manifest with its files (name in the snapshot → local file).

        A second call with the same manifest returns what is there.
        """
        ...

    def get(self, service: str, ref: str) -> StoredSnapshot:
        """Return a snapshot by alias, number, id, or unique beginning of an id (6 characters or more).

        Raises:
            BadInput: there is none, several fit, or its manifest was altered.
        """
        ...

    def list(self, service: str) -> tuple[SnapshotEntry, ...]:
        """Return a service's snapshots, newest first; a service without any gives none."""
        ...

    def aliases(self, service: str) -> Mapping[str, str]:
        """Return alias → snapshot id."""
        ...

    def set_alias(self, service: str, alias: str, snapshot_id: str, reason: str, by: str) -> None:
        """Point an alias at a snapshot and read it back.

        Moving ``serving`` takes ``previous`` to the snapshot that it left.
        """
        ...

    def set_health(
        self, service: str, snapshot_id: str, health: Health, reason: str, by: str
    ) -> None:
        """Write down what the golden runs say of a snapshot."""
        ...

    def set_pinned(
        self, service: str, snapshot_id: str, is_pinned: bool, reason: str, by: str
    ) -> None:
        """Say whether a snapshot is kept for good; the same again changes nothing."""
        ...

    def remove(self, service: str, snapshot_id: str, reason: str, by: str) -> None:
        """Remove a snapshot; what broke off in the middle is completed by removing it again.

        Raises:
            BadInput: there is no such snapshot, or it is pinned or carries an alias.
        """
        ...

    def audit(self, service: str) -> tuple[AuditEntry, ...]:
        """Return everything done to a service's snapshots, oldest first."""
        ...

    def fetch_file(self, snapshot: StoredSnapshot, name: str, to: Path) -> Path:
        """Copy one file of a snapshot to the path ``to`` and check its hash.

        Raises:
            BadInput: the snapshot has no such file or its content was altered.
        """
        ...


def check_alias(alias: str) -> None:
    """Refuse an alias that is not one of the fixed four."""
    if alias not in ALIASES:
        raise BadInput(f"there is no alias '{alias}'", fix=f"use one of: {', '.join(ALIASES)}")


def check_removable(entry: SnapshotEntry) -> None:
    """Refuse to remove a snapshot that somebody relies on."""
    what = f"snapshot {entry.snapshot_id[:12]}"
    if entry.aliases:
        raise BadInput(
            f"{what} is '{', '.join(entry.aliases)}' and cannot be removed",
            fix="point the alias at another snapshot first",
        )
    if entry.is_pinned:
        raise BadInput(f"{what} is pinned and cannot be removed", fix="quality snapshot unpin")


def check_file_name(name: str) -> None:
    """Refuse a file name that is absolute, leaves the snapshot, or hides the manifest."""
    parts = name.split("/")
    if name == MANIFEST_NAME or not all(parts) or {".", ".."} & set(parts) or "\\" in name:
        raise BadInput(f"'{name}' cannot be the name of a file in a snapshot", fix="use a/b.json")


def find(entries: tuple[SnapshotEntry, ...], service: str, ref: str) -> SnapshotEntry:
    """Return the one entry that ``ref`` (alias, number as in ``2`` or ``#2``, id, its beginning) names.

    Alias and whole id go first; digits that are a number and begin another's id are ambiguous.
    """
    named = [e for e in entries if ref in e.aliases or e.snapshot_id == ref]
    if not named:
        number = [e for e in entries if ref in {str(e.number), f"#{e.number}"}]
        begins = [e for e in entries if len(ref) >= MIN_PREFIX and e.snapshot_id.startswith(ref)]
        named = [*number, *(e for e in begins if e not in number)]
    if len(named) == 1:
        return named[0]
    if named:
        raise _ambiguous(named, service, ref)
    if ref in ALIASES:
        raise BadInput(
            f"no snapshot of '{service}' carries the alias '{ref}'",
            fix=f"set it: quality snapshot alias {ref} ID --service {service}",
        )
    known = ", ".join(_shown(e) for e in entries[:5]) or "none"
    raise BadInput(f"there is no snapshot '{ref}' of '{service}'", fix=f"the newest are: {known}")


def _ambiguous(named: Sequence[SnapshotEntry], service: str, ref: str) -> BadInput:
    shown = ", ".join(_shown(e) for e in named[:5])
    number = next((e for e in named if str(e.number) == ref), None)
    if number is None:
        return BadInput(
            f"several snapshots of '{service}' begin with '{ref}': {shown}",
            fix="give more of the id",
        )
    return BadInput(
        f"'{ref}' is the number of one snapshot of '{service}' and the beginning of another: {shown}",
        fix=f"write #{ref} for the number, or more of the id",
    )


def _shown(entry: SnapshotEntry) -> str:
    return f"#{entry.number} {entry.snapshot_id[:12]}"
