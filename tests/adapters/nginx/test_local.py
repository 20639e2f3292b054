"""The local stack's nginx: the same address every time, and traffic that stays where it was moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.nginx.local import LocalRoute
from quality_lib.errors import OutsideFailure
from quality_lib.rollout.ports import Backend, RouteTable
from tests.route_backends import Backends


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    LocalRoute.stop_all(tmp_path)


def instance(backends: Backends, name: str) -> Instance:
    at = f"http://{backends.addresses[name]}"
    return Instance(f"id-{name}", at, 0, Path("log"), Path("model"), "chat", "2026-11-30T12:00:00")


def test_a_local_service_keeps_its_address_and_its_table(home: Path) -> None:
    with Backends() as backends:
        route = LocalRoute.of(home, "chat")
        assert not route.is_running()
        assert LocalRoute.running(home) == ()
        route.lead_to(instance(backends, "a"))
        assert LocalRoute.running(home) == (route,)
        assert LocalRoute.of(home, "chat") == route, "while it runs its port is not free"
        assert httpx.get(f"{route.url}/x", trust_env=False).headers["x-backend"] == "a"

        a, b, _ = backends.addresses.values()
        moved = RouteTable("chat", (Backend("id-a", a, 0), Backend("new", b, 100)))
        route.parts.route.apply(moved)
        route.lead_to(instance(backends, "a"))
        assert route.parts.route.table() == moved, "what a rollback has moved is not moved back"

        assert LocalRoute.stop_all(home) == ()
        assert LocalRoute.running(home) == ()
        with pytest.raises(OutsideFailure):
            route.parts.route.table()
        assert LocalRoute.of(home, "chat") == route, "the port of last time is free again"
        backends.kill("b")
        route.lead_to(instance(backends, "a"))
        assert route.parts.route.table().weights() == {"id-a": 100}


def test_a_damaged_record_is_a_new_start(home: Path) -> None:
    route = LocalRoute.of(home, "chat")
    (route.folder / "local.json").write_text("{")
    assert LocalRoute.of(home, "chat").service == "chat"
    assert LocalRoute.running(home) == ()
