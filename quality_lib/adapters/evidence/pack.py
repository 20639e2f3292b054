"""Evidence of an instance in one archive, collected while it still runs.

Every part has its own thread and its own time: a hung file system or a server that does not answer
costs one part, told in the manifest, and never the others. The archive is written under another name
and renamed when it is whole and on disk, so there is never half of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.evidence.parts import is_alive, parts_of
from quality_lib.adapters.evidence.scene import PackLimits, Part, Scene
from quality_lib.adapters.evidence.secrets import SecretMask, secret_values
from quality_lib.adapters.machine import process_facts
from quality_lib.errors import BadInput, OutsideFailure, QualityError
from quality_lib.rollout.evidence_pack import EvidencePack, PackEntry
from quality_lib.snapshots.manifest import Manifest

MANIFEST = "manifest.json"
_KEPT = 0o600


@dataclass(frozen=True)
class EvidenceOf:
    """Whose evidence it is, and what else is known of the instance."""

    service: str
    incident_id: str
    manifest: Manifest | None = None
    """Of the snapshot that the instance was started from; ``None``: it never was one."""
    api_key: str | None = None
    exchange_folder: Path | None = None
    """Where the guarded server records; ``None``: not here."""
    core_dump: bool = False


def collect(
    instance: Instance,
    to: Path,
    of: EvidenceOf,
    *,
    limits: PackLimits = PackLimits(),  # noqa: B008 - frozen
    transport: httpx.BaseTransport | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> EvidencePack:
    """Collect everything into ``<to>/evidence-<instance id>.tar.gz``; a whole archive is kept.

    A part that fails is a line in the manifest. The instance may be dead: then there are fewer parts.

    Raises:
        OutsideFailure: the archive itself cannot be written.
    """
    archive = to / f"evidence-{instance.id}.tar.gz"
    try:
        to.mkdir(parents=True, exist_ok=True, mode=0o700)
        if archive.exists():
            return read_pack(archive)
        with tempfile.TemporaryDirectory(
            prefix=".evidence-", dir=to, ignore_cleanup_errors=True
        ) as staging:
            scene = _scene(instance, of, limits, transport)
            parts = parts_of(scene, core_dump=of.core_dump)
            entries = _collect_all(parts, Path(staging), now, scene.mask)
            _keep_outside(entries, Path(staging), archive)
            pack = EvidencePack(
                instance_id=instance.id,
                service=of.service,
                incident_id=of.incident_id,
                collected_at=now().isoformat(timespec="seconds"),
                archive=archive,
                size=0,
                sha256="",
                entries=entries,
            )
            _write_archive(pack, Path(staging))
    except OSError as error:
        raise OutsideFailure(f"{archive} cannot be written: {error.strerror or error}") from error
    return read_pack(archive)


def read_pack(archive: Path) -> EvidencePack:
    """Return what an archive holds; its parts are hashed again.

    Raises:
        BadInput: it is no such archive, or a part of it was altered.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            member = tar.extractfile(MANIFEST)
            data = json.loads(member.read()) if member is not None else {}
            entries = tuple(PackEntry(**entry) for entry in data.pop("entries"))
            for entry in entries:
                if entry.is_there and entry.is_in_archive:
                    _check(tar, entry, archive)
        data |= {"archive": archive, "size": archive.stat().st_size, "sha256": _hash_of(archive)}
        return EvidencePack(**data, entries=entries)
    except FileNotFoundError:
        raise BadInput("does not exist", file=archive) from None
    except (OSError, EOFError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"is no archive of evidence: {error}", file=archive) from error


def _scene(
    instance: Instance, of: EvidenceOf, limits: PackLimits, transport: httpx.BaseTransport | None
) -> Scene:
    known = set(secret_values(os.environ)) | ({of.api_key} if of.api_key else set())
    if is_alive(instance):
        for process in process_facts.family(instance.pid):
            known |= secret_values(
                process_facts.environment_of(process.pid), process_facts.arguments_of(process.pid)
            )
    return Scene(
        instance=instance,
        mask=SecretMask(known),
        limits=limits,
        manifest=of.manifest,
        api_key=of.api_key,
        exchange_folder=of.exchange_folder,
        exchange_service=of.service,
        transport=transport,
    )


def _collect_all(
    parts: Sequence[Part], staging: Path, now: Callable[[], datetime], mask: SecretMask
) -> tuple[PackEntry, ...]:
    """Collect all parts beside each other; one that takes too long is left behind."""
    running = [_Running(part, staging, now, mask) for part in parts]
    return tuple(one.result() for one in running)


class _Running:
    """One part on its way."""

    def __init__(
        self, part: Part, staging: Path, now: Callable[[], datetime], mask: SecretMask
    ) -> None:
        self._part = part
        # A folder of its own: what a late thread still writes reaches nobody.
        self._draft = Path(tempfile.mkdtemp(prefix="part-", dir=staging)) / part.name
        self._place = staging / part.name
        self._mask = mask
        self._problem = ""
        self._began = time.monotonic()
        self._at = now().isoformat(timespec="seconds")
        # A daemon: a thread that hangs in the kernel must not keep this process alive.
        self._thread = threading.Thread(target=self._run, name=f"evidence {part.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._problem = self._part.collect(self._draft)
        except QualityError as error:
            self._problem = str(error)
        except Exception as error:  # noqa: BLE001 - no part may stop the evidence of the others
            self._problem = f"{type(error).__name__}: {error}"
        self._seconds = time.monotonic() - self._began

    def result(self) -> PackEntry:
        """Wait for the part as long as it may take, and say what came of it."""
        limit = self._part.limit_s
        self._thread.join(max(0.0, self._began + limit - time.monotonic()))
        if self._thread.is_alive():
            return self._entry(0, "", limit, f"not done after {limit:g} s")
        problem = self._mask.text(self._problem)[:500]
        if not self._draft.is_file():
            return self._entry(0, "", self._seconds, problem or "nothing was found")
        self._draft.replace(self._place)
        digest = _hash_of(self._place)
        return self._entry(self._place.stat().st_size, digest, self._seconds, problem)

    def _entry(self, size: int, digest: str, seconds: float, problem: str) -> PackEntry:
        return PackEntry(
            name=self._part.name,
            what=self._part.what,
            size=size,
            sha256=digest,
            collected_at=self._at,
            seconds=round(seconds, 3),
            problem=problem,
            is_in_archive=self._part.is_in_archive,
        )


def _keep_outside(entries: Sequence[PackEntry], staging: Path, archive: Path) -> None:
    """Put what must not travel beside the archive, for its owner only."""
    for entry in entries:
        if entry.is_there and not entry.is_in_archive:
            kept = archive.with_name(f"{archive.name.removesuffix('.tar.gz')}.{entry.name}")
            (staging / entry.name).chmod(_KEPT)
            (staging / entry.name).replace(kept)


def _write_archive(pack: EvidencePack, staging: Path) -> None:
    listed: dict[str, Any] = asdict(pack)
    for name in ("archive", "size", "sha256"):
        del listed[name]
    (staging / MANIFEST).write_text(
        json.dumps(listed, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8"
    )
    draft = staging / "archive.part"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _KEPT)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
            for name in (
                MANIFEST,
                *(e.name for e in pack.entries if e.is_there and e.is_in_archive),
            ):
                tar.add(staging / name, name, filter=_owned_by_nobody)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(pack.archive)


def _owned_by_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    # Not `member.replace(…)`: Debian's Python 3.11.2 does not have it.
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = _KEPT
    return member


def _check(tar: tarfile.TarFile, entry: PackEntry, archive: Path) -> None:
    member = tar.extractfile(entry.name)
    found = hashlib.file_digest(member, "sha256").hexdigest() if member is not None else "nothing"  # type: ignore[arg-type]
    if found != entry.sha256:
        raise BadInput(f"'{entry.name}' in it was altered", file=archive)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json_part(archive: Path, name: str) -> Any:
    """Return a JSON part of an archive; ``None`` when it was not collected.

    Raises:
        BadInput: it is no such archive.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            member = tar.extractfile(name)
            return None if member is None else json.loads(member.read())
    except KeyError:
        return None
    except (OSError, EOFError, tarfile.TarError, ValueError) as error:
        raise BadInput(f"cannot be read: {error}", file=archive) from error
