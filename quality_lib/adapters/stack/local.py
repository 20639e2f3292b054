"""The local stack: S3, MLflow and Airflow as processes of this machine, for the demo and a first try.

Everything listens on loopback, lies under one home folder and ends with ``down``. Not for
production: one user, SQLite, and an S3 server that keeps its objects in memory (``docker/`` has the
durable set-up).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import filelock

from quality_lib.adapters.machine import ports
from quality_lib.adapters.stack import parts as stack_parts
from quality_lib.adapters.stack.airflow_client import AirflowClient
from quality_lib.adapters.stack.airflow_home import USER
from quality_lib.adapters.stack.parts import (
    AIRFLOW_WORKERS,
    ALL,
    API_SERVER,
    MLFLOW,
    S3,
    StackParts,
)
from quality_lib.adapters.stack.processes import Part, StackProcesses
from quality_lib.adapters.stack.s3_contents import BUCKET
from quality_lib.errors import BadInput, OutsideFailure

GRACE_S = 10.0
"""How long a part may take to end before it is killed; a running task is ended with Airflow."""

GPU_POOL = ("gpu", 1, "Tasks that load a serving instance: one at a time.")

Say = Callable[[str], None]


class PartState(StrEnum):
    """How a part is doing."""

    RUNNING = "running"
    BROKEN = "broken"
    """Its first process is gone but others are left."""
    STOPPED = "stopped"


@dataclass(frozen=True)
class PartStatus:
    """One part, for a table."""

    name: str
    state: PartState
    address: str | None
    pids: tuple[int, ...]
    log: Path


@dataclass(frozen=True)
class StackAddresses:
    """Where the running parts are found."""

    s3: str | None
    bucket: str
    mlflow: str | None
    airflow: str | None
    airflow_user: str
    airflow_password: str
    airflow_home: Path
    logs: Path


class LocalStack:
    """The stack whose files lie under ``home`` and whose DAGs lie in ``repository``."""

    def __init__(
        self,
        home: Path,
        repository: Path,
        *,
        env: Mapping[str, str] | None = None,
        has_schedules: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._home = home.absolute()
        self._env = os.environ if env is None else env
        self._parts = StackParts(self._home, checkout(repository), self._env, has_schedules)
        self._folder = self._home / "stack"
        self._processes = StackProcesses(self._folder, clock=clock, sleep=sleep)

    @property
    def config(self) -> Path:
        """The configuration file that Airflow's tasks read."""
        return self._home / "quality.yaml"

    def up(
        self,
        parts: Sequence[str] = ("s3", "mlflow", "airflow"),
        *,
        progress: Say = lambda _: None,
        connections: Mapping[str, str] | None = None,
    ) -> StackAddresses:
        """Start what does not run yet and wait until all of it works; idempotent.

        ``mlflow`` needs ``s3`` and ``airflow`` needs both, so these come along. ``connections``
        are Airflow connections as ``{id: uri}``. What this call started is ended when it fails or
        is interrupted.
        """
        wanted = _with_needs(parts)
        started: list[str] = []
        with self._locked():
            try:
                self._up(wanted, connections or {}, started, progress)
            except BaseException:
                if started:
                    progress("something went wrong: ending what was started")
                    self._processes.stop(started, GRACE_S)
                raise
        return self.addresses()

    def down(self, *, progress: Say = lambda _: None, discard: bool = False) -> tuple[int, ...]:
        """End every part with all its processes; return the pids that had to be killed.

        Ending what has ended does nothing. The objects in S3 are saved for the next ``up``, unless
        ``discard`` says that they may go.
        """
        with self._locked():
            # The scheduler goes before the server that its tasks report to.
            forced = self._end(tuple(AIRFLOW_WORKERS), progress)
            forced += self._end((API_SERVER, MLFLOW), progress)
            record = self._processes.record(S3)
            running = record is not None and self._processes.is_running(S3)
            if record is not None and record.port and running and not discard:
                count = self._parts.s3_contents(record.port).save()
                progress(f"s3: {count} objects saved")
            forced += self._end((S3,), progress)
        return forced

    def status(self) -> tuple[PartStatus, ...]:
        """Return every part, running or not."""
        return tuple(self._status(name) for name in ALL)

    def addresses(self) -> StackAddresses:
        """Return where the running parts are found; ``None`` for one that does not run."""
        at = {name: self._address(name) for name in (S3, MLFLOW, API_SERVER)}
        return StackAddresses(
            s3=at[S3],
            bucket=BUCKET,
            mlflow=at[MLFLOW],
            airflow=at[API_SERVER],
            airflow_user=USER,
            airflow_password=self._parts.airflow_home.password if at[API_SERVER] else "",
            airflow_home=self._parts.airflow_home.folder,
            logs=self._folder,
        )

    def airflow(self) -> AirflowClient:
        """Return a client of the running Airflow."""
        address = self._address(API_SERVER)
        if address is None:
            raise OutsideFailure("Airflow does not run; `make up` starts it")
        return AirflowClient(address, USER, self._parts.airflow_home.password)

    def _up(
        self,
        wanted: frozenset[str],
        connections: Mapping[str, str],
        started: list[str],
        progress: Say,
    ) -> None:
        """Start everything before waiting for anything: most of the time goes into imports."""
        at = self._choose_ports(wanted)
        contents = self._parts.s3_contents(at[S3])
        if contents.was_lost and not self._processes.is_running(S3):
            progress("s3: was killed, so what was stored since the last `down` is gone")
        stores = [self._parts.s3(at[S3])]
        if "mlflow" in wanted:
            stores.append(self._parts.mlflow(at[MLFLOW], at[S3]))
        missing = self._launch(stores, started, progress)
        airflow = self._airflow_parts(at, connections) if "airflow" in wanted else []
        if airflow and not self._runs_as_wanted(airflow[0]):
            self._parts.airflow_home.prepare_database(airflow[0], progress)
        missing += self._launch(airflow, started, progress)
        for part in (*stores, *airflow):
            self._processes.wait_ready(part)
            if part.name == S3 and (restored := contents.fill()):
                progress(f"s3: {restored} objects restored from the last `down`")
            if part in missing:
                progress(f"{part.name}: ready{_where(part)}")
        if airflow:
            with self._parts.airflow(at[API_SERVER]) as client:
                client.ensure_pool(*GPU_POOL)
        contents.mark_used()

    def _airflow_parts(self, at: Mapping[str, int], connections: Mapping[str, str]) -> list[Part]:
        port = at[API_SERVER]
        self._parts.airflow_home.write(port)
        settings = self._parts.airflow_settings(at, self.config, connections)
        workers = [self._parts.airflow_worker(name, port, settings) for name in AIRFLOW_WORKERS]
        return [self._parts.airflow_server(port, settings), *workers]

    def _launch(self, parts: Sequence[Part], started: list[str], progress: Say) -> list[Part]:
        """Start the parts that do not run as wanted and return them."""
        missing = [part for part in parts if not self._runs_as_wanted(part)]
        for part in parts:
            if part not in missing:
                progress(f"{part.name}: runs already{_where(part)}")
        stale = [part.name for part in missing if self._processes.members(part.name)]
        if stale:
            progress(f"{', '.join(stale)}: ending what is left of an earlier start")
            self._processes.stop(stale, GRACE_S)
        for part in missing:
            started.append(part.name)
            self._processes.start(part)
        return missing

    def _runs_as_wanted(self, part: Part) -> bool:
        record = self._processes.record(part.name)
        return (
            record is not None
            and record.fingerprint == part.fingerprint
            and self._processes.is_running(part.name)
        )

    def _choose_ports(self, wanted: frozenset[str]) -> dict[str, int]:
        """Return the ports of last time where they are free, so that bookmarks stay good."""
        names = [S3] + [MLFLOW] * ("mlflow" in wanted) + [API_SERVER] * ("airflow" in wanted)
        chosen: dict[str, int] = {}
        for name in names:
            record = self._processes.record(name)
            last = record.port if record is not None else None
            ours = bool(self._processes.members(name))
            if last is None or not (ours or ports.is_free(last)):
                last = ports.free_port(avoid=chosen.values())
            chosen[name] = last
        return chosen

    def _end(self, names: Sequence[str], progress: Say) -> tuple[int, ...]:
        running = [name for name in names if self._processes.members(name)]
        if not running:
            return ()
        forced = self._processes.stop(running, GRACE_S)
        for name in running:
            progress(f"{name}: ended")
        return forced

    def _status(self, name: str) -> PartStatus:
        pids = tuple(member.pid for member in self._processes.members(name))
        running = self._processes.is_running(name)
        state = PartState.RUNNING if running else PartState.BROKEN if pids else PartState.STOPPED
        return PartStatus(name, state, self._address(name), pids, self._processes.log_path(name))

    def _address(self, name: str) -> str | None:
        record = self._processes.record(name)
        if record is None or record.port is None or not self._processes.is_running(name):
            return None
        return stack_parts.url(record.port)

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with filelock.FileLock(self._folder / ".lock", timeout=1.0):
                yield
        except filelock.Timeout:
            raise OutsideFailure(
                f"another `up` or `down` is at work in {self._home}; wait until it is done"
            ) from None
        except OSError as error:
            raise OutsideFailure(f"{self._folder} cannot be used: {error}") from error


def checkout(folder: Path) -> Path:
    """Return the folder if it is this project's checkout, which holds the DAGs.

    Raises:
        BadInput: it is not.
    """
    folder = folder.absolute()
    if not all((folder / part).is_dir() for part in ("dags", "plugins", "quality_lib")):
        raise BadInput(
            "is no checkout of this project: Airflow takes its dags and plugins from there",
            file=folder,
            fix="change to the repository's folder and try again",
        )
    return folder


def _where(part: Part) -> str:
    return f" at {stack_parts.url(part.port)}" if part.port else ""


def _with_needs(parts: Sequence[str]) -> frozenset[str]:
    needs = {"s3": {"s3"}, "mlflow": {"s3", "mlflow"}, "airflow": {"s3", "mlflow", "airflow"}}
    if unknown := sorted(set(parts) - set(needs)):
        raise BadInput(f"there is no part '{unknown[0]}'", fix=f"use some of: {', '.join(needs)}")
    return frozenset().union(*(needs[part] for part in parts))
