"""LocalEngine with real processes: the small server for the corners, vLLM for the drain."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running
from quality_lib.errors import BadInput, EngineFailed
from tests.adapters.small_commands import small_server

MakeEngine = Callable[..., LocalEngine]


@pytest.fixture
def spec(tmp_path: Path) -> EngineSpec:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return EngineSpec(tmp_path / "model", "chat", drain_s=5)


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[MakeEngine]:
    def make(*modes: str) -> LocalEngine:
        return LocalEngine(tmp_path / "state", command=small_server(*modes))

    yield make
    rest = make()
    for instance in rest.instances():
        rest.stop(instance, 0.0)


def _is_gone(pid: int) -> bool:
    """A zombie that init has not yet collected is gone too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_an_early_death_is_told_at_once_with_the_logs_error(
    make_engine: MakeEngine, spec: EngineSpec
) -> None:
    engine = make_engine("die")
    instance = engine.start(spec)
    began = time.monotonic()
    with pytest.raises(EngineFailed) as failed:
        engine.wait_healthy(instance, 60)
    assert time.monotonic() - began < 20
    assert "died while starting with exit code 1" in str(failed.value)
    assert "RuntimeError: the weights are broken" in str(failed.value)
    assert str(instance.log_path) in str(failed.value)
    engine.stop(instance)


def test_a_hanging_start_ends_at_its_time_out(make_engine: MakeEngine, spec: EngineSpec) -> None:
    engine = make_engine("hang")
    with pytest.raises(EngineFailed, match="not ready after 1 s"), running(engine, spec, 1.0):
        pytest.fail("it is not healthy")
    assert engine.instances() == ()


def test_a_server_that_ignores_the_signal_is_killed(
    make_engine: MakeEngine, spec: EngineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quality_lib.adapters.engine.local.TEARDOWN_S", 1.0)
    engine = make_engine("stubborn")
    instance = engine.start(spec)
    engine.wait_healthy(instance, 30)
    assert engine.stop(instance, drain_s=0.5).forced == (instance.pid,)
    assert _is_gone(instance.pid)


def test_workers_go_with_their_server(make_engine: MakeEngine, spec: EngineSpec) -> None:
    engine = make_engine("worker")
    instance = engine.start(spec)
    engine.wait_healthy(instance, 30)
    (worker,) = psutil.Process(instance.pid).children()
    assert engine.stop(instance).forced == (worker.pid,)
    assert _is_gone(worker.pid)


def test_workers_of_a_killed_server_are_orphans_until_cleaned(
    make_engine: MakeEngine, spec: EngineSpec
) -> None:
    engine = make_engine("worker")
    instance = engine.start(dataclasses.replace(spec, detached=True))
    engine.wait_healthy(instance, 30)
    (worker,) = psutil.Process(instance.pid).children()
    os.kill(instance.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while engine.is_running(instance) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not engine.is_running(instance)
    assert engine.find_orphans() == (instance,)
    (ended,) = engine.clean()
    assert ended.forced == (worker.pid,)
    assert _is_gone(worker.pid)
    assert engine.instances() == ()


def _await_connection(pid: int) -> None:
    """Return when the server has taken a connection; what waits in the kernel's queue is not in flight."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connections = psutil.Process(pid).net_connections(kind="tcp")
        if any(c.status == psutil.CONN_ESTABLISHED for c in connections):
            return
        time.sleep(0.02)
    pytest.fail("no request has reached the server")


def test_requests_in_flight_finish(make_engine: MakeEngine, spec: EngineSpec) -> None:
    engine = make_engine("slow")
    instance = engine.start(spec)
    engine.wait_healthy(instance, 30)
    answers: list[int] = []

    def ask() -> None:
        answer = httpx.post(f"{instance.endpoint}/v1/completions", json={}, timeout=30)
        answers.append(answer.status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    _await_connection(instance.pid)
    assert engine.stop(instance).forced == ()
    asking.join()
    assert answers == [200]


OWNER = """
import sys, time
from dataclasses import replace
from pathlib import Path
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.engine.local import LocalEngine
from tests.adapters.small_commands import small_server

state, model, detached = sys.argv[1:]
engine = LocalEngine(Path(state), command=small_server())
spec = EngineSpec(Path(model), "chat", detached=detached == "detached")
engine.wait_healthy(engine.start(spec), 30)
print("ready", flush=True)
time.sleep(600)
"""


def _start_owner(tmp_path: Path, spec: EngineSpec, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OWNER, str(tmp_path / "state"), str(spec.model_path), how]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    owner.stdout.close()
    return owner


def test_kill_9_of_the_owner_leaves_nothing_running(
    make_engine: MakeEngine, spec: EngineSpec, tmp_path: Path
) -> None:
    owner = _start_owner(tmp_path, spec, "owned")
    engine = make_engine()
    (instance,) = engine.instances()
    assert engine.find_orphans() == ()
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 20
    while engine.instances() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert engine.instances() == ()
    assert _is_gone(instance.pid)


def test_without_a_watcher_clean_finds_the_orphan(
    make_engine: MakeEngine, spec: EngineSpec, tmp_path: Path
) -> None:
    owner = _start_owner(tmp_path, spec, "owned")
    engine = make_engine()
    (instance,) = engine.instances()
    for watcher in psutil.Process(owner.pid).children():
        if "owner_watch" in " ".join(watcher.cmdline()):
            watcher.kill()
    owner.kill()
    owner.wait()
    assert engine.find_orphans() == (instance,)
    assert [ended.instance for ended in engine.clean()] == [instance]
    assert _is_gone(instance.pid)


def test_a_detached_instance_outlives_its_starter_and_is_no_orphan(
    make_engine: MakeEngine, spec: EngineSpec, tmp_path: Path
) -> None:
    owner = _start_owner(tmp_path, spec, "detached")
    owner.kill()
    owner.wait()
    engine = make_engine()
    time.sleep(2)
    (instance,) = engine.instances()
    assert engine.find_orphans() == ()
    assert engine.clean() == ()
    assert engine.is_running(instance)


def test_a_recycled_process_id_is_not_touched(make_engine: MakeEngine, spec: EngineSpec) -> None:
    engine = make_engine()
    instance = engine.start(spec)
    engine.stop(instance)
    # The record as a crash would have left it, its process id taken over by somebody else since.
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    path = instance.log_path.parent / "instance.json"
    record = json.loads(path.read_text())
    record |= {"stopped": False, "server": {"pid": stranger.pid, "started": time.time() - 5000}}
    path.write_text(json.dumps(record))
    try:
        assert not engine.is_running(instance)
        assert engine.clean() == ()
        assert engine.stop(instance).forced == ()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_start_that_was_killed_before_its_record_is_found(
    make_engine: MakeEngine, spec: EngineSpec
) -> None:
    engine = make_engine()
    instance = engine.start(dataclasses.replace(spec, detached=True))
    engine.wait_healthy(instance, 30)
    path = instance.log_path.parent / "instance.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"server": None}))
    (ended,) = engine.clean()
    assert ended.forced == (instance.pid,)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [((), None), (("base",), None), (("broken",), "refused its first request")],
)
def test_warm_up(
    make_engine: MakeEngine, spec: EngineSpec, modes: tuple[str, ...], expected: str | None
) -> None:
    engine = make_engine(*modes)
    instance = engine.start(spec)
    engine.wait_healthy(instance, 30)
    if expected is None:
        assert engine.warm_up(instance) >= 0
    else:
        with pytest.raises(EngineFailed, match=expected):
            engine.warm_up(instance)
    engine.stop(instance)


def test_a_taken_port_names_its_holder(make_engine: MakeEngine, spec: EngineSpec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(EngineFailed, match=rf"port {port} is taken by process {os.getpid()}"):
            make_engine().start(dataclasses.replace(spec, port=port))


def test_another_server_on_the_port_is_not_taken_for_ours(spec: EngineSpec, tmp_path: Path) -> None:
    thieves: list[subprocess.Popen[bytes]] = []

    def too_late(s: EngineSpec, port: int) -> tuple[str, ...]:
        # Somebody takes the port between our choice and the server's own bind.
        thieves.append(subprocess.Popen(small_server()(s, port)))
        return small_server("hang")(s, port)

    engine = LocalEngine(tmp_path / "state", command=too_late)
    instance = engine.start(spec)
    try:
        with pytest.raises(EngineFailed, match="not by instance"):
            engine.wait_healthy(instance, 10)
    finally:
        engine.stop(instance)
        thieves[0].kill()
        thieves[0].wait()


def test_a_folder_without_config_is_bad_input(make_engine: MakeEngine, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"config\.json"):
        make_engine().start(EngineSpec(tmp_path, "chat"))


def test_a_program_that_cannot_start_leaves_no_record_running(
    spec: EngineSpec, tmp_path: Path
) -> None:
    engine = LocalEngine(tmp_path / "state", command=lambda *_: ("/nowhere/python",))
    with pytest.raises(EngineFailed, match="/nowhere/python"):
        engine.start(spec)
    assert engine.instances() == ()


def test_secrets_are_not_recorded(tmp_path: Path, spec: EngineSpec) -> None:
    def command(s: EngineSpec, port: int) -> tuple[str, ...]:
        return (*small_server()(s, port), "--api-key", "key-of-args")

    engine = LocalEngine(tmp_path / "state", command=command, api_key="key-of-engine")
    instance = engine.start(dataclasses.replace(spec, env={"SOME_TOKEN": "key-of-env"}))
    engine.stop(instance)
    record = (instance.log_path.parent / "instance.json").read_text()
    assert "***" in record
    assert "key-of" not in record
    assert (instance.log_path.parent / "instance.json").stat().st_mode & 0o077 == 0


def test_logs_of_the_last_instances_are_kept(
    make_engine: MakeEngine, spec: EngineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quality_lib.adapters.engine.instance_records.KEEP_STOPPED", 1)
    engine = make_engine("die")
    ended: list[Instance] = []
    for _ in range(3):
        ended.append(engine.start(spec))
        with pytest.raises(EngineFailed):
            engine.wait_healthy(ended[-1], 30)
        engine.stop(ended[-1])
    assert [instance.log_path.exists() for instance in ended] == [False, True, True]
