"""What is serving right now: files, arguments, environment, and one key for all of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from quality_lib import wiring
from quality_lib.adapters.files.run_folder import write_json
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.errors import OutsideFailure
from quality_lib.jobs.clock import Note
from quality_lib.settings import ServiceSettings, home
from quality_lib.snapshots.arguments import args_sha256
from quality_lib.snapshots.manifest import ImageRecord, deployment_key
from quality_lib.snapshots.startup_check import ServerFacts


@dataclass(frozen=True)
class Deployment:
    """One look at a service."""

    key: str
    """Equal for the same weights, arguments and image."""
    facts: ServerFacts
    weights_uri: str
    """Where the served weights lie."""
    environment: Mapping[str, Any]
    args_sha256: str | None
    image: ImageRecord


def observe_deployment(service: ServiceSettings, note: Note = lambda _: None) -> Deployment:
    """Look at the running server and at the files it was started from.

    After a rollback these lie elsewhere than the configuration says, so the server's own word goes
    before it, where it names a folder of this machine.
    """
    facts = wiring.server_facts(service)
    image = ImageRecord(ref=service.image.ref, digest=service.image.digest)
    args = None if facts.args is None else args_sha256(facts.args)
    folder = served_folder(service, facts).absolute()
    return Deployment(
        key=deployment_key(weights_root(folder, note), args, image),
        facts=facts,
        weights_uri=folder.as_uri(),
        environment=dataclasses.asdict(wiring.server_environment(service)),
        args_sha256=args,
        image=image,
    )


def served_folder(service: ServiceSettings, facts: ServerFacts) -> Path:
    """Return where the served weights lie: what the server says, else what is configured.

    A name of a hub, or a path inside a container, is no folder here and cannot be hashed.
    """
    told = Path(facts.weights_path) if facts.weights_path else None
    return told if told is not None and told.is_absolute() and told.is_dir() else service.weights


def weights_root(folder: Path, note: Note = lambda _: None) -> str:
    """Return the root hash of a weights folder; files that did not change are not read again.

    An hourly check must not read a hundred gigabytes for an answer that it had an hour ago. What
    counts as unchanged is path, size and time of change; ``snapshot verify`` always reads.
    """
    try:
        signature = [
            [str(p.relative_to(folder)), (s := p.stat()).st_size, s.st_mtime_ns, s.st_ctime_ns]
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        ]
    except OSError as error:
        raise OutsideFailure(f"{folder} cannot be read: {error}") from error
    cache = home() / "weights-roots.json"
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{cache}.lock"):
            known = json.loads(cache.read_text(encoding="utf-8")) if cache.exists() else {}
            entry = known.get(str(folder))
            if entry and entry["signature"] == signature:
                return str(entry["root"])
            note(f"hashing {folder}, which is new or has changed")
            root = hash_folder(folder).root_sha256
            known[str(folder)] = {"signature": signature, "root": root}
            write_json(cache, known)
            return root
    except OSError as error:
        raise OutsideFailure(f"{cache} cannot be written: {error}") from error
