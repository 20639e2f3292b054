"""A service with its route, engine and stores in memory, for rollbacks; faults on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quality_lib.adapters.engine.port import EngineSpec, Instance
from quality_lib.adapters.files.journal import IncidentFolder
from quality_lib.errors import EngineFailed, OutsideFailure
from quality_lib.jobs import rollback
from quality_lib.jobs.rollback_parts import Examination, Parts
from quality_lib.jobs.rollback_plan import Wishes, plan_rollback
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal, Target
from quality_lib.rollout.machine import Step
from quality_lib.rollout.moves import spread
from quality_lib.rollout.ports import INSTANCE_HEADER, Backend, RouteTable
from quality_lib.rollout.strategy import StepName
from quality_lib.settings import ServiceSettings
from quality_lib.snapshots.manifest import WeightsRecord
from quality_lib.snapshots.ports import SERVING, Health, SnapshotEntry
from tests.contracts.route import FakeRoute
from tests.fakes_engine import FakeEngine
from tests.fakes_incidents import InMemoryIncidents
from tests.fakes_snapshots import InMemorySnapshots
from tests.snapshots import builders

BAD_KEY = "baadf00dbaadf00d"
ROUTE = "http://127.0.0.1:8000"
Hook = Callable[[str], None]


class Killed(BaseException):
    """What a kill -9 looks like from inside: nobody catches it, nothing is put away."""


@dataclass
class FakeExaminer:
    """Says what the test wants of a snapshot (full) or of an instance's address (core)."""

    full_says: dict[str, Tri] = field(default_factory=dict)
    core_says: dict[str, Tri] = field(default_factory=dict)
    is_away: bool = False
    during: Callable[[], None] = lambda: None
    """What happens while a golden set is asked."""
    asked: list[tuple[str, str]] = field(default_factory=list)

    def full(
        self, target: Target, endpoint: str, out: Path, hear: Callable[[], None]
    ) -> Examination:
        self.during()
        hear()
        return self._say("full", self.full_says.get(target.snapshot_id, Tri.YES), endpoint)

    def core(
        self, target: Target, endpoint: str, headers: Mapping[str, str], out: Path, cases: int
    ) -> Examination:
        who = headers.get(INSTANCE_HEADER, endpoint)
        return self._say("core", self.core_says.get(who, Tri.YES), who)

    def _say(self, what: str, state: Tri, who: str) -> Examination:
        if self.is_away:
            raise OutsideFailure("the golden set's store does not answer")
        self.asked.append((what, who))
        return Examination(state, f"{what}: {state.value}", {"mean_similarity": 0.99})


class Hooked:
    """A port whose named calls are announced before and after."""

    def __init__(self, name: str, port: object, calls: tuple[str, ...], hook: Hook) -> None:
        self._name, self._port, self._calls, self._hook = name, port, calls, hook

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        if name not in self._calls:
            return call

        def announced(*args: Any, **more: Any) -> Any:
            self._hook(f"before {self._name}.{name}")
            found = call(*args, **more)
            self._hook(f"after {self._name}.{name}")
            return found

        return announced


class FailingEngine(FakeEngine):
    """Does not load the models that a test names."""

    def __init__(self) -> None:
        super().__init__()
        self.unstartable: set[str] = set()

    def start(self, spec: EngineSpec) -> Instance:
        if spec.model_path.name in self.unstartable:
            raise EngineFailed(f"{spec.model_path} cannot be loaded")
        return super().start(spec)


class World:
    """Everything outside a rollback. ``engine`` and the stores outlive any process of it."""

    def __init__(
        self, folder: Path, *, replicas: int = 1, healthy: int = 2, **settings: Any
    ) -> None:
        self.folder = folder
        self.now = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
        self.hook: Hook = lambda point: None
        self.engine = FailingEngine()
        self.examiner = FakeExaminer()
        self.snapshots = InMemorySnapshots()
        self.incidents = InMemoryIncidents()
        self.ill: set[str] = set()
        self.rehash_says: dict[str, tuple[str, ...]] = {}
        self.collected: list[str] = []
        self.reports: list[str] = []
        self.is_mlflow_away = False
        self.is_file_store_away = False
        self.settings = {"soak_s": 10.0, "keep_retired_minutes": 0.0, "mode": "auto", **settings}
        self.good = tuple(self._snapshot(number) for number in range(healthy))
        bad = folder / "bad"
        bad.mkdir(exist_ok=True)
        self.old = [
            self.engine.start(EngineSpec(bad, "chat", args=("--enforce-eager",), detached=True))
            for _ in range(replicas)
        ]
        shares = spread(100, {f"old-{n}": 1.0 for n in range(replicas)})
        self.start = RouteTable(
            "chat",
            tuple(
                Backend(name, address(instance), share)
                for (name, share), instance in zip(shares.items(), self.old, strict=True)
            ),
        )
        self.route = FakeRoute(table=self.start, now=lambda: self.now)

    @property
    def parts(self) -> Parts:
        """What a new process would work with."""
        route = Hooked("route", self.route, ("apply",), self.hook)
        engine = Hooked("engine", self.engine, ("start", "stop", "warm_up"), self.hook)
        examiner = Hooked("examiner", self.examiner, ("full", "core"), self.hook)
        snapshots = Hooked("snapshots", self.snapshots, ("set_alias", "set_health"), self.hook)
        incidents = Hooked("incidents", self.incidents, ("open", "update"), self.hook)
        return Parts(
            service_name="chat",
            service=ServiceSettings.model_validate({
                "endpoint": ROUTE,
                "model": "chat",
                "weights": self.folder / "bad",
                "engine": {"kind": "local", "args": ["--enforce-eager"]},
                "rollback": self.settings,
            }),
            work_dir=self.folder / "runs",
            engine=engine,
            route=route,
            snapshots=snapshots,
            incidents=incidents,
            examiner=examiner,
            rehash=lambda stored: self.rehash_says.get(stored.snapshot_id, ()),
            collect=self._collect,
            report=self._report,
            deployment_key=lambda: BAD_KEY,
            is_alive=self.is_alive,
            clock=lambda: self.now,
            sleep=self._sleep,
            instance_env={"QUALITY_SERVICE": "chat"},
        )

    def plan(self, **wishes: Any) -> Path:
        """Open an incident; give its folder."""
        journal, folder = plan_rollback(self.parts, Wishes(by="test", reason="test", **wishes))
        assert folder is not None and folder.read() == journal
        return folder.path

    def do(self, path: Path, name: str, index: int | None = None) -> rollback.StepResult:
        """Do one step, as a process of its own would."""
        return rollback.perform(self.parts, path, Step(StepName(name), index))

    def journal(self, path: Path) -> Journal:
        return IncidentFolder(path).read()

    def is_alive(self, at: str) -> bool:
        return at not in self.ill and any(address(i) == at for i in self.engine.instances())

    def dies(self, at: str) -> None:
        """Let the instance at an address end by itself."""
        for instance in self.engine.instances():
            if address(instance) == at:
                self.engine.stop(instance, 0.0)

    def ask(self, count: int) -> None:
        """Send requests through the route."""
        for _ in range(count):
            self.route.send()

    def _sleep(self, seconds: float) -> None:
        self.hook("sleep")
        self.now += timedelta(seconds=seconds)
        self.ask(3)

    def _collect(self, instance: Instance, journal: Journal, to: Path) -> Mapping[str, Any]:
        self.hook("before collect")
        assert self.engine.is_running(instance), "evidence comes before the end"
        self.collected.append(instance.id)
        return {"archive": str(to / "evidence.tar.gz")}

    def _report(self, journal: Journal, folder: Path) -> Mapping[str, Any]:
        self.hook("before report")
        if self.is_mlflow_away:
            raise OutsideFailure("MLflow does not answer")
        self.reports.append(journal.state)
        if self.is_file_store_away:
            return {"url": "", "page": f"{folder}/post-mortem.html", "problem": "not published: S3"}
        return {"url": "http://mlflow/post-mortem"}

    def _snapshot(self, number: int) -> SnapshotEntry:
        folder = self.folder / f"good-{number}"
        folder.mkdir(exist_ok=True)
        manifest = builders.manifest(
            weights=WeightsRecord((), f"{number:064x}", folder.as_uri()),
            created_at=f"2026-03-{number + 1:02}T00:00:00+00:00",
        )
        stored = self.snapshots.create("chat", manifest, {}, Health.HEALTHY)
        if number == 0:
            self.snapshots.set_alias("chat", SERVING, stored.snapshot_id, "first", "test")
        return stored.entry


def address(instance: Instance) -> str:
    return instance.endpoint.removeprefix("http://")


def dumped(path: Path) -> Any:
    return json.loads((path / "journal.json").read_text(encoding="utf-8"))
