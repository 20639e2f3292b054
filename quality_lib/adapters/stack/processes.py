"""The background processes of the local stack: started in sessions of their own, recorded, ended.

One folder holds a record ``<name>.json`` and a log ``<name>.log`` per part. What is needed to end a
part is recorded before it starts, and every process of it carries a mark in its environment, so
nothing is lost track of when a part, or whoever started it, is killed.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from quality_lib.adapters.engine import log as engine_log
from quality_lib.adapters.machine import processes
from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.errors import OutsideFailure

MARK = "QUALITY_STACK_PART"
TITLES = ("airflow", "mlflow")
"""Programs that overwrite their environment, and so the mark, with a title."""

POLL_S = 0.25
KILL_S = 10.0
LOG_LIMIT_BYTES = 20 * 1024 * 1024
"""A longer log is set aside as ``.log.old`` when its part starts again."""


@dataclass(frozen=True)
class Part:
    """One program of the stack."""

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, str]
    """Environment variables that tell it what to do; a change of them calls for a restart."""
    surroundings: Mapping[str, str]
    """The rest of its environment."""
    folder: Path
    is_ready: Callable[[ProcessId], bool]
    """Whether this process does its work; asked again and again after its start."""
    port: int | None = None
    timeout_s: float = 180.0
    configuration: str = ""
    """Text of the files it reads at its start; a change of it calls for a restart."""

    @property
    def fingerprint(self) -> str:
        """Tell a running part from one that was started in another way."""
        text = json.dumps([self.command, sorted(self.settings.items()), self.configuration])
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PartRecord:
    """What is known of a part that was started once."""

    name: str
    port: int | None
    fingerprint: str
    leader: ProcessId | None
    """``None`` between the record and the start: the process may or may not exist."""


class StackProcesses:
    """The parts whose records lie in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._sleep = sleep

    def log_path(self, name: str) -> Path:
        """Return where a part writes."""
        return self._folder / f"{name}.log"

    def record(self, name: str) -> PartRecord | None:
        """Return the record of a part; ``None`` without one, or when it cannot be understood."""
        try:
            data = json.loads(self._record_path(name).read_text(encoding="utf-8"))
            leader = ProcessId(**data.pop("leader")) if data["leader"] else data.pop("leader")
            return PartRecord(leader=leader, **data)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def start(self, part: Part) -> ProcessId:
        """Start a part and return at once."""
        log = self.log_path(part.name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
                log.replace(log.with_suffix(".log.old"))
            self._write(PartRecord(part.name, part.port, part.fingerprint, None))
            env = {**part.surroundings, **part.settings, MARK: self._mark(part.name)}
            leader = processes.start_session(part.command, env, part.folder, log)
            self._write(PartRecord(part.name, part.port, part.fingerprint, leader))
        except OSError as error:
            raise OutsideFailure(f"{part.name} cannot be started: {error}") from error
        return leader

    def wait_ready(self, part: Part) -> None:
        """Return when the part does its work; fail early when it dies.

        Raises:
            OutsideFailure: with the last error lines of its log and the path of the log.
        """
        deadline = self._clock() + part.timeout_s
        record = self.record(part.name)
        if record is None or record.leader is None:
            raise OutsideFailure(f"{part.name} was not started")
        while not part.is_ready(record.leader):
            if not record.leader.is_alive():
                code = processes.exit_code(record.leader.pid)
                how = f" with exit code {code}" if code is not None else ""
                raise OutsideFailure(self._obituary(part.name, f"died while starting{how}"))
            if self._clock() >= deadline:
                problem = f"is not ready after {part.timeout_s:.0f} s"
                raise OutsideFailure(self._obituary(part.name, problem))
            self._sleep(POLL_S)

    def is_running(self, name: str) -> bool:
        """Return whether the part's first process lives."""
        record = self.record(name)
        return record is not None and record.leader is not None and record.leader.is_alive()

    def members(self, name: str) -> tuple[ProcessId, ...]:
        """Return every living process of a part, also of one that has lost its first."""
        mark = self._mark(name)
        found = set(processes.marked(MARK, mark))
        record = self.record(name)
        if record is not None and record.leader is not None:

            def is_ours(process: psutil.Process) -> bool:
                given = processes.environment_of(process).get(MARK)
                return given == mark or (given is None and process.name().startswith(TITLES))

            found.update(processes.session_members(record.leader, is_ours))
        return tuple(sorted(found, key=lambda one: (one.started, one.pid)))

    def stop(self, names: Sequence[str], grace_s: float) -> tuple[int, ...]:
        """End parts together with all they have started; return the pids that had to be killed.

        Raises:
            OutsideFailure: something is left.
        """
        before = self._members_of(names)
        for member in before:
            processes.send(member, signal.SIGTERM)
        self._wait_gone(before, grace_s)
        # A part that was told to end may have started something in its last moment.
        forced = self._members_of(names)
        for member in forced:
            processes.send(member, signal.SIGKILL)
        self._wait_gone(forced, KILL_S)
        if left := self._members_of(names):
            pids = ", ".join(str(one.pid) for one in left)
            raise OutsideFailure(f"{' and '.join(names)} cannot be ended: processes {pids} remain")
        return tuple(one.pid for one in forced)

    def _members_of(self, names: Iterable[str]) -> tuple[ProcessId, ...]:
        return tuple(dict.fromkeys(member for name in names for member in self.members(name)))

    def _wait_gone(self, targets: Iterable[ProcessId], timeout_s: float) -> None:
        processes.wait_gone(targets, timeout_s, clock=self._clock, sleep=self._sleep)

    def _mark(self, name: str) -> str:
        return f"{self._folder.absolute()}:{name}"

    def _record_path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _write(self, record: PartRecord) -> None:
        data: dict[str, Any] = {
            "name": record.name,
            "port": record.port,
            "fingerprint": record.fingerprint,
            "leader": vars(record.leader) if record.leader else None,
        }
        path = self._record_path(record.name)
        draft = path.with_suffix(".json.new")
        draft.write_text(json.dumps(data, indent=1), encoding="utf-8")
        draft.replace(path)

    def _obituary(self, name: str, problem: str) -> str:
        log = self.log_path(name)
        errors = " | ".join(engine_log.last_errors(log))
        said = f" It said: {errors}" if errors else ""
        return f"{name} {problem}.{said} Its log: {log}"
