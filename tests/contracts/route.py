"""What every route must do, run on the fake and on nginx; and the fake itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from quality_lib.errors import BadInput, NoData, OutsideFailure, QualityError
from quality_lib.rollout.ports import INSTANCE_HEADER, NOBODY, Backend, Route, RouteTable, Served
from tests.route_backends import until

SERVICE = "chat"


@dataclass(frozen=True)
class FakeRequest:
    """One request that the fake has split."""

    began: datetime
    backend: str
    outcome: str
    """``ok``, ``failed``, ``cut`` or ``left``."""
    took_s: float
    is_straight: bool


class FakeRoute:
    """A route in memory that splits exactly, like smooth weighted round robin.

    Tests steer it: ``is_down`` lets every call fail; ``refusal`` is raised by the next ``apply``;
    ``busy`` are requests in flight by backend (None: cannot be told); ``outcomes`` what becomes of a
    backend's requests. ``applied`` holds every table that came into force, oldest first.
    """

    def __init__(
        self,
        service: str = SERVICE,
        table: RouteTable | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.service = service
        self.now = now
        self.applied: list[RouteTable] = [table] if table else []
        self.requests: list[FakeRequest] = []
        self.busy: dict[str, int | None] = {}
        self.outcomes: dict[str, str] = {}
        self.is_down = False
        self.refusal: QualityError | None = None
        self._current: dict[str, int] = {}

    def table(self) -> RouteTable:
        self._check()
        if not self.applied:
            raise NoData(f"the route of '{self.service}' has no instance yet")
        return self.applied[-1]

    def apply(self, table: RouteTable) -> None:
        self._check()
        if table.service != self.service:
            raise BadInput(f"this is the route of '{self.service}', not of '{table.service}'")
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        if not self.applied or self.applied[-1] != table:
            self.applied.append(table)
            self._current = {}

    def split(self, since: datetime, until: datetime | None = None) -> Mapping[str, Served]:
        found: dict[str, list[FakeRequest]] = {b.name: [] for b in self.table().backends}
        for one in self.requests:
            if one.began >= since and (until is None or one.began < until) and not one.is_straight:
                found.setdefault(one.backend, []).append(one)
        return {
            name: Served(
                requests=len(taken),
                failed=sum(r.outcome == "failed" for r in taken),
                cut=sum(r.outcome == "cut" for r in taken),
                slowest_s=max((r.took_s for r in taken), default=0.0),
                in_flight=None if name == NOBODY else self.busy.get(name, 0),
                left=sum(r.outcome == "left" for r in taken),
            )
            for name, taken in found.items()
        }

    def in_flight(self, backend: str) -> int | None:
        return self.busy.get(self.table().backend(backend).name, 0)

    def straight(self, backend: str) -> Mapping[str, str]:
        return {INSTANCE_HEADER: self.table().backend(backend).name}

    def send(self, headers: Mapping[str, str] | None = None, *, took_s: float = 0.01) -> str | None:
        """Split one request; return who took it, None when the proxy refused it."""
        asked = (headers or {}).get(INSTANCE_HEADER)
        if self.is_down or not self.applied:
            return None
        weights = self.applied[-1].weights()
        if asked is not None and asked not in weights:
            return None
        name = asked or self._next(weights)
        outcome = self.outcomes.get(name, "ok")
        self.requests.append(FakeRequest(self.now(), name, outcome, took_s, asked is not None))
        return name

    def _next(self, weights: Mapping[str, int]) -> str:
        for name, weight in weights.items():
            self._current[name] = self._current.get(name, 0) + weight
        best = max((name for name in weights if weights[name]), key=lambda n: self._current[n])
        self._current[best] -= sum(weights.values())
        return best

    def _check(self) -> None:
        if self.is_down:
            raise OutsideFailure(f"the route of '{self.service}' does not answer")


class World(Protocol):
    """A route with three backends behind it, and a client before it."""

    @property
    def route(self) -> Route: ...

    @property
    def addresses(self) -> tuple[str, str, str]: ...

    def ask(self, headers: Mapping[str, str] | None = None) -> str | None:
        """Send one request and return the name of the backend that really took it."""
        ...

    def hold(self) -> Callable[[], None]:
        """Send a request that does not end until what this returns is called."""
        ...


class RouteContract:
    """Subclasses give the fixture ``world``."""

    def test_before_the_first_table_there_is_none(self, world: World) -> None:
        with pytest.raises(NoData):
            world.route.table()
        assert world.ask() is None

    def test_what_was_applied_is_told(self, world: World) -> None:
        wanted = table(world, 60, 40, 0, mirror="c", percent=5)
        world.route.apply(wanted)
        assert world.route.table() == wanted
        world.route.apply(table(world, 0, 0, 100))
        assert world.route.table() == table(world, 0, 0, 100)

    def test_requests_are_split_by_weight_and_counted(self, world: World) -> None:
        world.route.apply(table(world, 75, 25, 0))
        since = datetime.now(UTC)
        taken = [world.ask() for _ in range(80)]
        # Smooth weighted round robin in state that all workers share: exact, not only on average.
        assert (taken.count("a"), taken.count("b"), taken.count("c")) == (60, 20, 0)
        split = until(lambda: world.route.split(since), lambda s: total(s) == 80)
        assert {name: served.requests for name, served in split.items()} == {
            "a": 60, "b": 20, "c": 0,
        }  # fmt: skip
        assert all(s.failed == s.cut == s.left == 0 for s in split.values())
        assert split["a"].slowest_s >= 0 == split["c"].slowest_s
        later = datetime.now(UTC) + timedelta(seconds=1)
        assert total(world.route.split(later)) == 0
        assert total(world.route.split(since, since)) == 0

    def test_a_header_leads_to_a_backend_without_weight(self, world: World) -> None:
        world.route.apply(table(world, 100, 0, 0))
        since = datetime.now(UTC)
        assert [world.ask(world.route.straight("b")) for _ in range(5)] == ["b"] * 5
        assert world.ask() == "a"
        split = until(lambda: world.route.split(since), lambda s: total(s) == 1)
        assert split["b"].requests == 0, "requests that were led say nothing of the split"

    def test_a_wrong_name_is_told_with_the_right_ones(self, world: World) -> None:
        world.route.apply(table(world, 50, 50, 0))
        for ask in (world.route.straight, world.route.in_flight):
            with pytest.raises(BadInput, match="use one of: a, b, c"):
                ask("nobody")
        assert world.ask({INSTANCE_HEADER: "nobody"}) is None

    def test_a_table_of_another_service_is_refused(self, world: World) -> None:
        world.route.apply(table(world, 50, 50, 0))
        foreign = RouteTable("other", (Backend("a", world.addresses[0], 100),))
        with pytest.raises(BadInput, match="'chat'"):
            world.route.apply(foreign)
        assert world.route.table() == table(world, 50, 50, 0)

    def test_requests_in_flight_are_seen_and_go_on_after_a_change(self, world: World) -> None:
        world.route.apply(table(world, 100, 0, 0))
        assert until(lambda: world.route.in_flight("a"), lambda n: n == 0) == 0
        release = world.hold()
        assert until(lambda: world.route.in_flight("a"), lambda n: n == 1) == 1
        world.route.apply(table(world, 0, 100, 0))
        assert world.ask() == "b"
        assert world.route.in_flight("a") == 1
        release()
        assert until(lambda: world.route.in_flight("a"), lambda n: n == 0) == 0


def table(
    world: World, a: int, b: int, c: int, mirror: str | None = None, percent: int = 100
) -> RouteTable:
    at = world.addresses
    backends = (Backend("a", at[0], a), Backend("b", at[1], b), Backend("c", at[2], c))
    return RouteTable(SERVICE, backends, mirror, percent)


def total(split: Mapping[str, Served]) -> int:
    return sum(served.requests for served in split.values())
