"""The contract of ``Route`` on both that we have."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from quality_lib.rollout.ports import Route
from tests.contracts.route import FakeRoute, RouteContract, World
from tests.nginx_route import RunningRoute, running_route
from tests.route_backends import Backends, until


@dataclass
class FakeWorld:
    route: FakeRoute
    addresses: tuple[str, str, str] = ("127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003")

    def ask(self, headers: Mapping[str, str] | None = None) -> str | None:
        return self.route.send(headers)

    def hold(self) -> Callable[[], None]:
        name = self.route.send()
        assert name is not None
        self.route.busy[name] = 1
        return lambda: self.route.busy.update({name: 0})


class NginxWorld:
    def __init__(self, running: RunningRoute, backends: Backends) -> None:
        self.route: Route = running.route
        self._running = running
        self._backends = backends
        a, b, c = backends.addresses.values()
        self.addresses = (a, b, c)

    def ask(self, headers: Mapping[str, str] | None = None) -> str | None:
        answer = self._running.post(headers)
        return answer.headers.get("x-backend") if answer.status_code == 200 else None

    def hold(self) -> Callable[[], None]:
        before = len(self._backends.seen)
        request = {"x-test": json.dumps({"hold": True})}
        thread = threading.Thread(target=self._running.post, args=(request,))
        thread.start()
        until(lambda: len(self._backends.seen), lambda n: n > before)

        def release() -> None:
            self._backends.release()
            thread.join()

        return release


class TestFake(RouteContract):
    @pytest.fixture
    def world(self) -> World:
        return FakeWorld(FakeRoute())


class TestNginx(RouteContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Generator[World]:
        with Backends() as backends, running_route(tmp_path) as running:
            yield NginxWorld(running, backends)
