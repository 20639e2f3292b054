"""The records of local instances: one folder each, with ``instance.json`` and ``server.log``."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.errors import BadInput, OutsideFailure

KEEP_STOPPED = 20
"""Logs of this many ended instances are kept for whoever looks for the cause."""

_RECORD = "instance.json"
_LOG = "server.log"


@dataclass(frozen=True)
class Record:
    """An instance with what is needed to end it for certain."""

    instance: Instance
    port: int
    server: ProcessId | None
    """``None`` between the record and the start: the process may or may not exist."""
    owner: ProcessId | None
    """Who answers for the instance; ``None`` when it runs detached."""
    stopped: bool = False
    ready_s: float | None = None
    """Seconds from the start until it served; None where nobody saw it become ready."""


class InstanceRecords:
    """The folder of records."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def lock_path(self) -> Path:
        """The lock under which ports are handed out."""
        self._make(self.root)
        return self.root / ".lock"

    def log_path(self, instance_id: str) -> Path:
        """Return where the server of this instance writes."""
        return self.root / instance_id / _LOG

    def write(self, record: Record) -> None:
        """Write the record, whole or not at all."""
        folder = self.root / record.instance.id
        self._make(folder)
        try:
            with tempfile.NamedTemporaryFile(
                "w", dir=folder, prefix=".record-", delete=False, encoding="utf-8"
            ) as file:
                json.dump(_as_json(record), file, indent=1)
            Path(file.name).replace(folder / _RECORD)
        except OSError as error:
            raise OutsideFailure(f"{folder}: the instance cannot be recorded: {error}") from error

    def read(self, instance_id: str) -> Record:
        """Return one record.

        Raises:
            BadInput: there is none of this id, or it cannot be understood.
        """
        path = self.root / instance_id / _RECORD
        try:
            return _from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise BadInput(
                f"there is no instance '{instance_id}'", fix="quality engine list shows them"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"is no instance record: {error}", file=path, fix="remove its folder"
            ) from error

    def all(self) -> tuple[Record, ...]:
        """Return every record that can be read, oldest first."""
        found = []
        for path in self.root.glob(f"*/{_RECORD}"):
            try:
                found.append(self.read(path.parent.name))
            except BadInput:
                continue
        return tuple(sorted(found, key=lambda r: (r.instance.started_at, r.instance.id)))

    def prune(self) -> None:
        """Remove the oldest ended instances beyond ``KEEP_STOPPED``."""
        for record in [r for r in self.all() if r.stopped][:-KEEP_STOPPED]:
            shutil.rmtree(self.root / record.instance.id, ignore_errors=True)

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise OutsideFailure(
                f"{folder}: cannot be created: {os.strerror(error.errno or 0)}"
            ) from error


def _as_json(record: Record) -> dict[str, Any]:
    data = dataclasses.asdict(record)
    data["instance"] |= {
        "log_path": str(record.instance.log_path),
        "model_path": str(record.instance.model_path),
    }
    return data


def _from_json(data: dict[str, Any]) -> Record:
    instance = data["instance"]
    return Record(
        instance=Instance(**{
            **instance,
            "log_path": Path(instance["log_path"]),
            "model_path": Path(instance["model_path"]),
            "args": tuple(instance["args"]),
            "labels": instance.get("labels", {}),
        }),
        port=data["port"],
        server=ProcessId(**data["server"]) if data["server"] else None,
        owner=ProcessId(**data["owner"]) if data["owner"] else None,
        stopped=data["stopped"],
        ready_s=data.get("ready_s"),
    )
