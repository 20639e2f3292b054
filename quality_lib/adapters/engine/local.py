"""The engine that runs instances as processes of this machine.

An instance is the leader of a session of its own, so that a Ctrl-C in a terminal does not reach it
and all its workers can be found even when it was killed. What is needed to end it is recorded
before it starts; an owned instance also gets a small watcher that ends it when its owner dies.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import filelock
import httpx
import psutil

from quality_lib.adapters.engine import log as engine_log
from quality_lib.adapters.engine.instance_records import InstanceRecords, Record
from quality_lib.adapters.engine.port import EngineSpec, Instance, Stopped
from quality_lib.adapters.machine import ports, processes
from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.adapters.vllm.command import server_env, vllm_command
from quality_lib.adapters.vllm.http import PROBE_HEADER
from quality_lib.errors import BadInput, EngineFailed, OutsideFailure
from quality_lib.serving.arguments import mask_secrets

MARK = "QUALITY_INSTANCE"
"""Environment variable that tells an instance's processes from any other."""

TEARDOWN_S = 10.0
"""After the requests have drained, the server may take this long to put itself away."""

WORKERS_S = 3.0
"""How long workers may outlive their server before they are killed."""

START_SEEN_S = 5.0
"""Whoever waits from so soon after the start on sees how long it takes."""

POLL_S = 0.5
LOCK_S = 60.0

CommandBuilder = Callable[[EngineSpec, int], Sequence[str]]


class LocalEngine:
    """Instances as local processes, recorded under ``state_dir``."""

    def __init__(
        self,
        state_dir: Path,
        *,
        api_key: str | None = None,
        command: CommandBuilder = vllm_command,
        env: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._records = InstanceRecords(state_dir.absolute())
        self._api_key = api_key
        self._command = command
        self._env = os.environ if env is None else env
        self._transport = transport
        self._clock = clock
        self._sleep = sleep
        self._now = now

    def start(self, spec: EngineSpec) -> Instance:
        """Start an instance and return at once; it is recorded before this returns."""
        spec = replace(spec, model_path=_model_folder(spec.model_path))
        self._records.prune()
        # The lock keeps two starts from being given the same port.
        with self._locked():
            port = self._choose_port(spec.port)
            command = tuple(self._command(spec, port))
            identity = uuid.uuid4().hex[:12]
            instance = Instance(
                id=identity,
                endpoint=f"http://{ports.LOOPBACK}:{port}",
                pid=0,
                log_path=self._records.log_path(identity),
                model_path=spec.model_path,
                served_name=spec.served_name,
                started_at=self._now().isoformat(timespec="milliseconds"),
                args=mask_secrets(command[1:]),
                drain_s=spec.drain_s,
                labels=dict(spec.labels),
            )
            owner = None if spec.detached else ProcessId.of(os.getpid())
            record = Record(instance, port, None, owner)
            self._records.write(record)
            try:
                server = self._launch(command, spec, instance)
            except EngineFailed:
                self._records.write(replace(record, stopped=True))
                raise
            record = replace(record, server=server, instance=replace(instance, pid=server.pid))
            self._records.write(record)
        if owner is not None:
            self._watch(record)
        return record.instance

    def wait_healthy(self, instance: Instance, timeout_s: float = 300.0) -> None:
        """Return when the instance lists its model; fail early when it dies.

        A failed instance is left as it is, for ``stop`` and for a look at its log.
        """
        deadline = self._clock() + timeout_s
        # Whoever comes later to one that is ready cannot tell when it became so.
        saw_it_load = self._age(self._record(instance)) < START_SEEN_S
        while True:
            if not self.is_running(instance):
                code = processes.exit_code(instance.pid)
                how = f" with exit code {code}" if code is not None else ""
                raise EngineFailed(self._obituary(instance, f"died while starting{how}"))
            if self._serves(instance):
                break
            if self._clock() >= deadline:
                raise EngineFailed(
                    self._obituary(instance, f"is not ready after {timeout_s:.0f} s")
                )
            saw_it_load = True
            self._sleep(POLL_S)
        record = self._record(instance)
        self._require_own_port(record)
        if saw_it_load and record.ready_s is None:
            self._records.write(replace(record, ready_s=self._age(record)))

    def warm_up(self, instance: Instance) -> float:
        """Send one chat and one scored completion; return the seconds they took."""
        began = self._clock()
        hello = {"model": instance.served_name, "temperature": 0, "max_tokens": 8}
        with self._client(instance, timeout_s=180.0) as client:
            try:
                chat = client.post(
                    "/v1/chat/completions",
                    headers=PROBE_HEADER,
                    json={**hello, "messages": [{"role": "user", "content": "Say hello."}]},
                )
                scored = client.post(
                    "/v1/completions",
                    headers=PROBE_HEADER,
                    json={**hello, "prompt": "Hello", "prompt_logprobs": 0},
                )
            except httpx.HTTPError as error:
                problem = f"did not answer its first request ({error!r})"
                raise EngineFailed(self._obituary(instance, problem)) from error
        # A base model has no chat template, and 400 is its right answer to a chat.
        for answer in (chat, scored) if chat.status_code != 400 else (scored,):
            if answer.status_code != 200:
                problem = f"refused its first request ({answer.status_code}: {answer.text[:200]})"
                raise EngineFailed(self._obituary(instance, problem))
        return self._clock() - began

    def is_running(self, instance: Instance) -> bool:
        """Return whether the instance's server process lives."""
        server = self._record(instance).server
        return server is not None and server.is_alive()

    def stop(self, instance: Instance, drain_s: float | None = None) -> Stopped:
        """Let requests in flight finish, then end every process of the instance; idempotent."""
        began = self._clock()
        record = self._record(instance)
        members = self._members(record)
        if record.server is not None and record.server.is_alive():
            processes.send(record.server, signal.SIGTERM)
            drain = record.instance.drain_s if drain_s is None else drain_s
            self._wait_gone((record.server,), drain + TEARDOWN_S)
            members = tuple({*members, *self._members(record)})
        if record.server is not None and not record.server.is_alive():
            # Workers without their server have nobody to answer to: no drain for them.
            self._wait_gone(members, WORKERS_S)
        forced = tuple(member for member in members if member.is_alive())
        for member in forced:
            processes.send(member, signal.SIGKILL)
        left = self._wait_gone(forced, TEARDOWN_S)
        if left:
            pids = ", ".join(str(p.pid) for p in left)
            raise EngineFailed(
                self._obituary(instance, f"cannot be ended: processes {pids} remain")
            )
        if not record.stopped:
            self._records.write(replace(record, stopped=True))
            self._wait_until_free(record.port)
        return Stopped(record.instance, tuple(p.pid for p in forced), self._clock() - began)

    def instances(self) -> tuple[Instance, ...]:
        """Return what runs, oldest first."""
        return tuple(record.instance for record in self._living())

    def find_orphans(self) -> tuple[Instance, ...]:
        """Return what runs although its owner is gone, or has lost its server process."""
        with self._locked():  # a start in progress is no orphan
            living = self._living()
        return tuple(
            record.instance
            for record in living
            if (record.owner is not None and not record.owner.is_alive())
            or record.server is None
            or not record.server.is_alive()
        )

    def startup_seconds(self, model_path: Path) -> float | None:
        """Return how long the last measured start of these weights took; None: never measured."""
        folder = model_path.expanduser().absolute()
        times = [r.ready_s for r in self._records.all() if r.instance.model_path == folder]
        return next((seconds for seconds in reversed(times) if seconds is not None), None)

    def clean(self) -> tuple[Stopped, ...]:
        """End every orphan without a drain, and tick off the records of what is long gone."""
        ended = tuple(self.stop(orphan, drain_s=0.0) for orphan in self.find_orphans())
        with self._locked():
            for record in self._records.all():
                if not record.stopped and not self._members(record):
                    self._records.write(replace(record, stopped=True))
        return ended

    def find(self, instance_id: str) -> Instance:
        """Return a recorded instance, running or not."""
        return self._records.read(instance_id).instance

    def owner_is_gone(self, instance: Instance) -> bool:
        """Return whether an owned instance has lost its owner."""
        owner = self._record(instance).owner
        return owner is not None and not owner.is_alive()

    @contextmanager
    def _locked(self) -> Generator[None]:
        try:
            with filelock.FileLock(self._records.lock_path, timeout=LOCK_S):
                yield
        except filelock.Timeout:
            raise OutsideFailure(
                f"{self._records.lock_path} has been held by another process for {LOCK_S:.0f} s"
            ) from None

    def _choose_port(self, wanted: int | None) -> int:
        taken = {record.port for record in self._records.all() if not record.stopped}
        if wanted is None:
            return ports.free_port(avoid=taken)
        if not ports.is_free(wanted):
            raise EngineFailed(
                f"port {wanted} is taken by {ports.holder(wanted)}; choose another or none"
            )
        return wanted

    def _launch(self, command: Sequence[str], spec: EngineSpec, instance: Instance) -> ProcessId:
        env = {**server_env(self._env, spec.env), MARK: instance.id}
        if self._api_key is not None:
            # By environment, because everybody on the machine can read argument lists.
            env["VLLM_API_KEY"] = self._api_key
        folder = instance.log_path.parent
        try:
            return processes.start_session(command, env, folder, instance.log_path)
        except OSError as error:
            raise EngineFailed(f"{command[0]} cannot be started: {error}") from error

    def _watch(self, record: Record) -> None:
        module = "quality_lib.adapters.engine.owner_watch"
        command = (sys.executable, "-m", module, str(self._records.root), record.instance.id)
        folder = record.instance.log_path.parent
        processes.start_session(command, server_env(self._env, {}), folder, folder / "watch.log")

    def _living(self) -> tuple[Record, ...]:
        return tuple(r for r in self._records.all() if not r.stopped and self._members(r))

    def _members(self, record: Record) -> tuple[ProcessId, ...]:
        if record.server is None:
            return processes.marked(MARK, record.instance.id)

        def is_ours(process: psutil.Process) -> bool:
            mark = processes.environment_of(process).get(MARK)
            # vLLM's workers overwrite their environment with their title.
            return mark == record.instance.id or (
                mark is None and process.name().startswith("VLLM")
            )

        return processes.session_members(record.server, is_ours)

    def _serves(self, instance: Instance) -> bool:
        try:
            with self._client(instance, timeout_s=5.0) as client:
                if client.get("/health").status_code != 200:
                    return False
                models = client.get("/v1/models")
                if models.status_code in {401, 403}:
                    raise EngineFailed(self._obituary(instance, "refuses the API key"))
                return instance.served_name in {m["id"] for m in models.json()["data"]}
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return False

    def _client(self, instance: Instance, timeout_s: float) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return httpx.Client(
            base_url=instance.endpoint,
            headers=headers,
            timeout=timeout_s,
            transport=self._transport,
            trust_env=False,  # a proxy has no business between us and loopback
        )

    def _age(self, record: Record) -> float:
        began = datetime.fromisoformat(record.instance.started_at)
        return max(0.0, (self._now() - began).total_seconds())

    def _record(self, instance: Instance) -> Record:
        return self._records.read(instance.id)

    def _require_own_port(self, record: Record) -> None:
        """Refuse a healthy answer that came from somebody else on the same port."""
        pid = ports.listener(record.port)
        if pid is None or pid in {member.pid for member in self._members(record)}:
            return
        raise EngineFailed(
            f"port {record.port} is served by {ports.holder(record.port)}, "
            f"not by instance {record.instance.id}"
        )

    def _wait_until_free(self, port: int) -> None:
        """Give the kernel a moment to close the socket; whoever holds it after that is not ours."""
        deadline = self._clock() + WORKERS_S
        while not ports.is_free(port) and self._clock() < deadline:
            self._sleep(POLL_S)

    def _wait_gone(self, targets: Sequence[ProcessId], timeout_s: float) -> tuple[ProcessId, ...]:
        return processes.wait_gone(targets, timeout_s, clock=self._clock, sleep=self._sleep)

    def _obituary(self, instance: Instance, problem: str) -> str:
        errors = " | ".join(engine_log.last_errors(instance.log_path))
        said = f" It said: {errors}" if errors else ""
        model = instance.model_path
        return f"the server of {model} {problem}.{said} Its log: {instance.log_path}"


def _model_folder(path: Path) -> Path:
    folder = path.expanduser().absolute()
    if not (folder / "config.json").is_file():
        raise BadInput(
            "is no model folder: it has no config.json",
            file=folder,
            fix="quality model prepare makes one from the packaged model",
        )
    return folder
