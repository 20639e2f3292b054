"""``quality rollback step`` killed with SIGKILL around real server processes, then resumed or aborted."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.adapters.vllm.server_health import is_healthy
from quality_lib.commands import rollback as commands
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.rollout.ports import Backend, RouteTable
from tests.adapters.small_commands import small_server
from tests.contracts.route import FakeRoute
from tests.rollback_world import World, address

RESULT = "result.json"


class RealWorld(World):
    """The same service with real processes, and a route that outlives the one that changes it."""

    def __init__(self, folder: Path, engine: LocalEngine, **settings: Any) -> None:
        super().__init__(folder, **settings)
        for number in range(len(self.good)):
            (folder / f"good-{number}" / "config.json").write_text("{}")
        (folder / "bad" / "config.json").write_text("{}")
        self.engine = engine  # type: ignore[assignment]
        old = engine.start(EngineSpec(folder / "bad", "chat", detached=True, drain_s=1))
        engine.wait_healthy(old, 60)
        self.old: list[Instance] = [old]
        self.start = RouteTable("chat", (Backend("old-0", address(old), 100),))
        self.route = FileRoute(folder / "route.txt", self.start, lambda: self.now)

    def is_alive(self, at: str) -> bool:
        return is_healthy(at)


class FileRoute(FakeRoute):
    """A route whose table is on disk, as a proxy's is."""

    def __init__(self, file: Path, start: RouteTable, now: Callable[[], Any]) -> None:
        super().__init__(table=start, now=now)
        self.file = file
        self._keep(start)

    def table(self) -> RouteTable:
        rows = [line.split() for line in self.file.read_text().splitlines()]
        return RouteTable("chat", tuple(Backend(n, a, int(w)) for n, a, w in rows))

    def apply(self, table: RouteTable) -> None:
        self._keep(table)

    def send(self, headers: Mapping[str, str] | None = None, *, took_s: float = 0.01) -> str | None:
        self.applied = [self.table()]
        return super().send(headers, took_s=took_s)

    def _keep(self, table: RouteTable) -> None:
        text = "".join(f"{b.name} {b.address} {b.weight}\n" for b in table.backends)
        part = self.file.with_suffix(".part")
        part.write_text(text)
        part.replace(self.file)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealWorld]:
    monkeypatch.setattr("quality_lib.adapters.engine.local.POLL_S", 0.05)
    engine = LocalEngine(tmp_path / "engine", command=small_server())
    try:
        yield RealWorld(tmp_path, engine, soak_s=1, step_percent=100)
    finally:
        for instance in engine.instances():
            engine.stop(instance, 0.0)


def command(world: World, monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    """Run the command line in this process; give its exit code."""

    def parts(*given: Any) -> Parts:
        return world.parts

    config = world.folder / "quality.yaml"
    config.write_text(
        "services: {chat: {endpoint: 'http://127.0.0.1:8000', model: chat, weights: bad}}\n"
    )
    monkeypatch.setattr(commands, "make_parts", parts)
    done = CliRunner().invoke(commands.app, [*args, "--config", str(config), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    (world.folder / RESULT).write_text(done.stdout)
    return done.exit_code


def killed_at(world: World, point: str, run: Callable[[], object]) -> None:
    """Run something in a process of its own that is killed when it comes to a point."""

    def hook(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        world.hook = hook
        try:
            run()
        finally:
            os._exit(3)  # it came through, or failed in its own way
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (
        f"'{point}' was never reached"
    )


POINTS = [
    ("validate", "after engine.start"),
    ("start", "after route.apply"),
    ("check", "after examiner.core"),
    ("move 0", "sleep"),
    ("retire", "after engine.stop"),
    ("recover", "after snapshots.set_alias"),
    ("report", "before report"),
]
"""One in each step, where the process has just done something; every other point is killed in
``test_rollback_faults.py``, without processes."""
STEPS = ("validate", "start", "check", "move 0", "retire", "recover", "report")


@pytest.mark.skipif(sys.platform != "linux", reason="fork and /proc")
@pytest.mark.parametrize(("step", "point"), POINTS)
def test_the_command_goes_on_where_a_killed_one_stopped(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, step: str, point: str
) -> None:
    path = world.plan()

    def do(name: str) -> int:
        word, _, index = name.partition(" ")
        more = ("--index", index) if index else ()
        return command(world, monkeypatch, "step", word, "--incident-dir", str(path), *more)

    for name in STEPS[: STEPS.index(step)]:
        assert do(name) == 0, (world.folder / RESULT).read_text()
    killed_at(world, point, lambda: do(step))
    running = world.engine.instances()
    serving = {b.address for b in world.route.table().backends if b.weight > 0}
    assert any(address(i) in serving and is_healthy(address(i)) for i in running), "no capacity"
    for name in STEPS[STEPS.index(step) :]:
        assert do(name) == 0, (world.folder / RESULT).read_text()
    (left,) = world.engine.instances()
    assert left.labels["incident"] == "chat-baadf00d-0"
    assert world.route.table().backends == (Backend("chat-baadf00d-0-r1", address(left), 100),)
    assert world.journal(path).state == "done"


@pytest.mark.parametrize(("step", "point"), [POINTS[1], POINTS[3]])
def test_a_killed_rollback_can_be_aborted(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, step: str, point: str
) -> None:
    path = world.plan()

    def do(name: str) -> int:
        word, _, index = name.partition(" ")
        more = ("--index", index) if index else ()
        return command(world, monkeypatch, "step", word, "--incident-dir", str(path), *more)

    for name in STEPS[: STEPS.index(step)]:
        assert do(name) == 0
    killed_at(world, point, lambda: do(step))
    assert command(world, monkeypatch, "abort", "--service", "chat", "--reason", "killed") == 0
    assert world.route.table() == world.start
    assert world.engine.instances() == tuple(world.old)
    assert do(step) == 1, "a step of an aborted rollback is not done"
