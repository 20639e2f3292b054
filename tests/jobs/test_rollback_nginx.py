"""A whole rollback with real servers behind a real nginx, while clients ask all the time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.vllm.server_health import is_healthy
from quality_lib.jobs import rollback
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.rollout.ports import Backend, RouteTable
from tests.adapters.small_commands import small_server
from tests.nginx_route import RunningRoute, running_route
from tests.rollback_world import World, address


class NginxWorld(World):
    """The service behind nginx, with the real clock."""

    def __init__(self, folder: Path, engine: LocalEngine, running: RunningRoute) -> None:
        super().__init__(folder, soak_s=1.5, step_percent=50, drain_timeout_s=60)
        for name in ("good-0", "good-1", "bad"):
            (folder / name / "config.json").write_text("{}")
        self.engine = engine  # type: ignore[assignment]
        old = engine.start(EngineSpec(folder / "bad", "chat", detached=True, drain_s=5))
        engine.wait_healthy(old, 60)
        self.old = [old]
        self.start = RouteTable("chat", (Backend("old-0", address(old), 100),))
        self.running = running
        running.route.apply(self.start)
        self.route = running.route  # type: ignore[assignment]

    @property
    def parts(self) -> Parts:
        parts = super().parts
        service = parts.service.model_copy(update={"endpoint": self.running.url})
        return dataclasses.replace(
            parts, service=service, clock=lambda: datetime.now(UTC), sleep=time.sleep
        )

    def is_alive(self, at: str) -> bool:
        return is_healthy(at)


class Clients:
    """Ask one request after the other, each on a connection of its own, and count what comes back."""

    def __init__(self, running: RunningRoute, count: int) -> None:
        self.statuses: list[int] = []
        self._running = running
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._stop.is_set():
            self.statuses.append(self._running.post().status_code)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NginxWorld]:
    monkeypatch.setattr("quality_lib.adapters.engine.local.POLL_S", 0.05)
    engine = LocalEngine(tmp_path / "engine", command=small_server())
    try:
        with running_route(tmp_path) as running:
            yield NginxWorld(tmp_path, engine, running)
    finally:
        for instance in engine.instances():
            engine.stop(instance, 0.0)


def test_no_request_is_lost_on_the_way(world: NginxWorld) -> None:
    path = world.plan()
    with Clients(world.running, 4) as clients:
        result = rollback.follow(world.parts, path)
    assert (result.step, result.state) == ("report", "done"), result.headline
    assert set(clients.statuses) == {200}, "a client saw the rollback"
    journal = world.journal(path)
    served = journal.facts["move 1"]["served"]
    assert served["old-0"]["requests"] == 0, "a request went to an instance of weight 0"
    assert sum(one["failed"] + one["cut"] for one in served.values()) == 0
    assert journal.facts["move 0"]["split"]["state"] in {"yes", "unknown"}
    (left,) = world.engine.instances()
    assert world.running.route.table().weights() == {"chat-baadf00d-0-r1": 100}
    assert left.labels["incident"] == "chat-baadf00d-0"


def test_an_abort_under_load_is_not_seen_either(world: NginxWorld) -> None:
    path = world.plan()
    with Clients(world.running, 4) as clients:
        rollback.follow(world.parts, path, lambda step, journal: str(step) != "move 1")
        assert rollback.request_abort(world.parts, "no", "ada").state == "aborted"
    assert set(clients.statuses) == {200}
    assert world.running.route.table() == world.start
    assert world.engine.instances() == tuple(world.old)
