"""A rollback killed at every point, and driven through random faults: what must hold always holds."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quality_lib.adapters.files.journal import Incidents
from quality_lib.errors import QualityError
from quality_lib.jobs import rollback
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.machine import next_step
from quality_lib.rollout.strategy import Strategy
from tests.rollback_world import ROUTE, Killed, World, address

WORLDS: dict[str, dict[str, Any]] = {
    "surge": {"step_percent": 50},
    "rolling": {"replicas": 2, "strategy": "rolling"},
    "in-place": {"strategy": "in-place"},
}


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quality_lib.adapters.files.run_folder.os.fsync", lambda number: None)


def quick_folder() -> Path:
    """Return a new folder, in memory where there is such a place: thousands of small writes."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))


def points_of(name: str) -> int:
    """Count the points at which a rollback can be killed, by doing one."""
    count = 0

    def see(point: str) -> None:
        nonlocal count
        count += 1

    folder = quick_folder()
    try:
        world = World(folder, **WORLDS[name], soak_s=1)
        world.hook = see
        assert rollback.follow(world.parts, world.plan()).state == "done"
    finally:
        shutil.rmtree(folder)
    return count


def kill_at(number: int) -> Callable[[str], None]:
    seen = 0

    def hook(point: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            raise Killed(point)

    return hook


def check_always(world: World, journal: Journal | None) -> None:
    """What holds whatever happens, in between as well."""
    history = world.incidents.history("chat")
    assert sum(not record.is_closed for record in history) <= 1
    if journal is None:
        return
    # Every table that ever was in force stands in the timeline.
    told = [event.detail["weights"] for event in journal.events if "weights" in event.detail]
    for table in world.route.applied[1:]:
        assert sum(backend.weight for backend in table.backends) == 100
        assert dict(table.weights()) in told


def check_end(world: World, journal: Journal) -> None:
    """What holds when the incident is closed and nobody died."""
    assert journal.is_closed and journal.closed_at is not None
    (record,) = world.incidents.history("chat")
    assert record.state == journal.state
    named = {b.address for b in world.route.table().backends}
    serving = {b.address for b in world.route.table().backends if b.weight > 0}
    running = {address(i) for i in world.engine.instances()}
    assert named <= running, "the route names a dead instance"
    new = {address(i) for i in world.engine.instances() if i.labels}
    assert new <= serving, "an instance of the rollback was left over"
    if journal.state == "done":
        assert not serving & {b.address for b in world.start.backends}
        assert len(world.collected) >= len(journal.plan.old), "evidence is missing"


@pytest.mark.parametrize("way", ["resume", "abort"])
@pytest.mark.parametrize("name", WORLDS)
def test_a_kill_at_any_point_is_survived(name: str, way: str) -> None:
    for number in range(1, points_of(name) + 1):
        folder = quick_folder()
        world = World(folder, **WORLDS[name], soak_s=1)
        world.hook = kill_at(number)
        with contextlib.suppress(Killed):
            rollback.follow(world.parts, world.plan())
        world.hook = lambda point: None
        journals = Incidents(folder / "runs", "chat").journals()
        path = journals[0][0].path if journals else world.plan()
        check_always(world, world.journal(path))
        if way == "resume":
            rollback.follow(world.parts, path)
            assert world.journal(path).state == "done", number
        elif not world.journal(path).is_closed:
            rollback.request_abort(world.parts, "killed", "test")
        check_always(world, world.journal(path))
        check_end(world, world.journal(path))
        shutil.rmtree(folder)


class Rollbacks(RuleBasedStateMachine):
    """One service, one rollback, and everything that can go wrong around it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = quick_folder()
        self.world: World
        self.path: Path | None = None
        self.deaths = False

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize(
        strategy=st.sampled_from(Strategy),
        replicas=st.integers(2, 3),
        keep=st.sampled_from([0.0, 30.0]),
        step=st.sampled_from([25, 50, 100]),
    )
    def begin(self, strategy: Strategy, replicas: int, keep: float, step: int) -> None:
        self.world = World(
            self.folder,
            replicas=1 if strategy is Strategy.IN_PLACE else replicas,
            healthy=3,
            strategy=strategy.value,
            keep_retired_minutes=keep,
            step_percent=step,
            soak_s=1,
        )
        self.path = self.world.plan()

    @property
    def journal(self) -> Journal | None:
        return self.world.journal(self.path) if self.path else None

    def is_open(self) -> bool:
        return self.journal is not None and not self.journal.is_closed

    def step_with(self, hook: Callable[[str], None]) -> None:
        assert self.path is not None and self.journal is not None
        step = next_step(self.journal)
        assert step is not None
        self.world.hook = hook
        try:
            with contextlib.suppress(QualityError, Killed):
                rollback.perform(self.world.parts, self.path, step)
        finally:
            self.world.hook = lambda point: None

    @precondition(is_open)
    @rule()
    def go_on(self) -> None:
        self.step_with(lambda point: None)

    @precondition(is_open)
    @rule(number=st.integers(1, 12))
    def be_killed(self, number: int) -> None:
        self.step_with(kill_at(number))

    @precondition(is_open)
    @rule()
    def be_aborted(self) -> None:
        with contextlib.suppress(QualityError):
            rollback.request_abort(self.world.parts, "a whim", "test")

    @rule()
    def route_goes(self) -> None:
        self.world.route.is_down = True

    @rule()
    def route_comes(self) -> None:
        self.world.route.is_down = False

    @rule(away=st.booleans())
    def mlflow_goes_or_comes(self, away: bool) -> None:
        self.world.is_mlflow_away = away
        self.world.examiner.is_away = away

    @rule(number=st.integers(0, 2))
    def candidate_is_bad(self, number: int) -> None:
        self.world.examiner.full_says[self.world.good[number].snapshot_id] = Tri.NO

    @rule(number=st.integers(0, 2))
    def candidate_does_not_start(self, number: int) -> None:
        self.world.engine.unstartable.add(f"good-{number}")

    @rule(state=st.sampled_from(Tri))
    def answers_change(self, state: Tri) -> None:
        self.world.examiner.core_says[ROUTE] = state

    @precondition(lambda self: any(i.labels for i in self.world.engine.instances()))
    @rule(pick=st.integers(0, 5))
    def new_instance_dies(self, pick: int) -> None:
        new = [i for i in self.world.engine.instances() if i.labels]
        self.world.dies(address(new[pick % len(new)]))
        self.deaths = True

    @precondition(lambda self: len(self.world.engine.instances()) > 1)
    @rule()
    def old_instance_dies(self) -> None:
        self.world.dies(address(self.world.old[0]))
        self.deaths = True

    @rule(minutes=st.integers(1, 200))
    def time_passes(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)
        if not self.world.route.is_down:
            with contextlib.suppress(QualityError):
                rollback.reconcile(self.world.parts)

    @invariant()
    def it_always_holds(self) -> None:
        if self.path is None:
            return
        journal = self.journal
        check_always(self.world, journal)
        table = self.world.route.applied[-1]
        is_in_place = self.world.settings["strategy"] == "in-place"
        if not self.deaths and not is_in_place:
            serving = [b for b in table.backends if b.weight > 0]
            assert all(self.world.is_alive(b.address) for b in serving), "capacity was lost"
        journals = Incidents(self.folder / "runs", "chat").journals()
        assert sum(not one.is_closed for _, one in journals) <= 1
        is_quiet = not self.deaths and not self.world.route.is_down
        if journal is not None and journal.is_closed and is_quiet:
            check_end(self.world, journal)


TestRandomFaults = Rollbacks.TestCase
TestRandomFaults.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    suppress_health_check=list(HealthCheck),
)
