"""``quality rollback`` while nginx, MLflow and S3 are killed with SIGKILL between its steps.

All three are real, and so are the processes of the instances; only what an instance answers to the
golden set is stood in for.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.mlflow.incidents import MlflowIncidents
from quality_lib.adapters.mlflow.snapshots import MlflowSnapshots
from quality_lib.adapters.model.weights_files import hash_folder
from quality_lib.adapters.vllm.server_health import is_healthy
from quality_lib.commands import rollback as commands
from quality_lib.jobs.rollback_left import find_left_behind
from quality_lib.jobs.rollback_make import make_parts
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.rollout.ports import Backend, RouteTable
from quality_lib.settings import load
from quality_lib.snapshots.ports import LAST_HEALTHY, SERVING, Health, StoredSnapshot
from tests.adapters.small_commands import small_server
from tests.in_process import QualityHere
from tests.mlflow_server import MlflowProcess
from tests.nginx_route import RunningRoute, running_route
from tests.rollback_world import FakeExaminer, address
from tests.s3_server import KEYS, S3Process
from tests.snapshots.builders import manifest

pytestmark = pytest.mark.stack

BUCKET = "store"
SILENT_ROUTE = r"the route of 'chat-\w+' does not answer at http"
SILENT_MLFLOW = r"MLflow at http\S+ does not answer \(ConnectError\)"
SILENT_FILES = (
    r"MLflow at http\S+ answers and cannot do this .* the store of its files does not answer"
)


@dataclasses.dataclass
class Stores:
    """MLflow with its files in S3. The disk of the killed S3 server is kept here for it."""

    mlflow: MlflowProcess
    s3: S3Process
    disk: dict[str, bytes] = dataclasses.field(default_factory=dict)

    def start(self) -> None:
        """Start what does not run."""
        self.s3.start()
        client = self.client()
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
            for key, content in self.disk.items():
                client.put_object(Bucket=BUCKET, Key=key, Body=content)
        self.mlflow.start()

    def kill_s3(self) -> None:
        """Kill it; what it had stored is there again when it is started."""
        client = self.client()
        found = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        self.disk = {
            one["Key"]: client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
            for one in found
        }
        self.s3.kill()

    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.s3.url,
            region_name=KEYS["AWS_DEFAULT_REGION"],
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stores]:
    folder = tmp_path_factory.mktemp("stores")
    s3 = S3Process(folder=folder)
    at = {"MLFLOW_S3_ENDPOINT_URL": s3.url, "MLFLOW_BOTO_CLIENT_ADDRESSING_STYLE": "path"}
    stores = Stores(
        MlflowProcess(folder=folder, artifacts=f"s3://{BUCKET}/mlflow", env=KEYS | at), s3
    )
    try:
        yield stores
    finally:
        stores.mlflow.kill()
        stores.s3.kill()


@pytest.fixture
def stores(shared: Stores, monkeypatch: pytest.MonkeyPatch) -> Stores:
    shared.start()
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": shared.s3.url, "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    return shared


class Scene:
    """A service with a bad instance behind nginx, and a healthy snapshot to go back to."""

    def __init__(
        self,
        folder: Path,
        name: str,
        stores: Stores,
        engine: LocalEngine,
        running: RunningRoute,
        quality: QualityHere,
    ) -> None:
        self.folder, self.name, self.stores = folder, name, stores
        self.engine, self.running, self._quality = engine, running, quality
        self.snapshots = MlflowSnapshots(stores.mlflow.url)
        self.incidents = MlflowIncidents(stores.mlflow.url)
        self.good = self._registered("good", b"good weights", Health.HEALTHY)
        self.bad = self._registered("bad", b"bad weights", Health.HEALTHY)
        self.snapshots.set_alias(name, SERVING, self.bad.snapshot_id, "deployed", "ada")
        old = engine.start(EngineSpec(folder / "bad", "chat", detached=True, drain_s=1))
        engine.wait_healthy(old, 60)
        self.old = old
        self.start = RouteTable(name, (Backend("old", address(old), 100),))
        running.route.apply(self.start)
        self.config = folder / "quality.yaml"
        service = {
            "endpoint": running.url,
            "model": "chat",
            "weights": str(folder / "bad"),
            "engine": {"kind": "local"},
            "route": {"kind": "nginx", "listen": running.url.removeprefix("http://"),
                      "folder": str(running.folder)},
            "rollback": {"mode": "auto", "soak_s": 0.2, "step_percent": 50, "drain_timeout_s": 20,
                         "keep_retired_minutes": 0},
            "evidence": {"ship_to": f"s3://{BUCKET}/evidence"},
        }  # fmt: skip
        data = {
            "services": {name: service},
            "stores": {"mlflow": stores.mlflow.url, "work_dir": str(folder / "runs")},
        }
        self.config.write_text(yaml.safe_dump(data), encoding="utf-8")

    def parts(self, *given: Any) -> Parts:
        """Make the real parts, but for what a model would answer."""
        return dataclasses.replace(
            make_parts(*given),
            engine=self.engine,
            examiner=FakeExaminer(),
            deployment_key=lambda: self.bad.entry.deployment_key,
        )

    def quality(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._quality("rollback", *words, "--config", self.config, "--json")

    def do(self, *words: str) -> dict[str, Any]:
        """Do what must succeed; give what it says."""
        done = self.quality(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        if self.running.process.is_running():
            assert sum(self.weights().values()) == 100, words
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def fails(self, told: str, *words: str) -> None:
        """Do what cannot be done now: exit code 3, what does not answer, and nothing else happens."""
        journal = self.journal() if self.incident_dir else None
        done = self.quality(*words)
        assert done.returncode == 3, (words, done.stdout, done.stderr)
        error = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
        assert re.search(told, error), error
        if journal is not None:
            after = self.journal()
            assert after["bad"] is None and after["done"] == journal["done"]

    def step(self, name: str) -> tuple[str, ...]:
        """Return the command of a step."""
        word, _, index = name.partition(" ")
        more = ("--index", index) if index else ()
        return ("step", word, *more, "--incident-dir", str(self.incident_dir))

    incident_dir: Path | None = None

    def plan(self) -> None:
        made = self.do("plan", "--service", self.name, "--reason", "bad answers")
        self.incident_dir = Path(made["incident_dir"])

    def journal(self) -> dict[str, Any]:
        assert self.incident_dir is not None
        kept = json.loads((self.incident_dir / "journal.json").read_text(encoding="utf-8"))
        assert isinstance(kept, dict)
        return kept

    def weights(self) -> dict[str, int]:
        return dict(self.running.route.table().weights())

    def check_every_table(self) -> None:
        """Hold every table that was ever to be set against the rule: weights sum to 100."""
        seen = [
            event["detail"]["weights"]
            for event in self.journal()["events"]
            if "weights" in event["detail"]
        ]
        assert {sum(weights.values()) for weights in seen} == {100}

    def kill_nginx(self) -> None:
        for pid in self.running.process.pids():
            os.kill(pid, signal.SIGKILL)

    def start_nginx(self) -> None:
        """As 'quality route start' does."""
        self.running.route.prepare()

    def _registered(self, folder: str, content: bytes, health: Health) -> StoredSnapshot:
        place = self.folder / folder
        place.mkdir()
        (place / "config.json").write_text("{}")
        (place / "model.safetensors").write_bytes(content)
        made = manifest(weights=hash_folder(place), created_by=folder)
        return self.snapshots.create(self.name, made, {}, health)


@pytest.fixture
def scene(
    tmp_path: Path,
    stores: Stores,
    monkeypatch: pytest.MonkeyPatch,
    quality_here: QualityHere,
) -> Generator[Scene]:
    monkeypatch.setattr("quality_lib.adapters.engine.local.POLL_S", 0.05)
    monkeypatch.setenv("QUALITY_HOME", str(tmp_path / "home"))
    engine = LocalEngine(tmp_path / "engine", command=small_server())
    name = f"chat-{uuid.uuid4().hex[:6]}"
    try:
        with running_route(tmp_path, name) as running:
            made = Scene(tmp_path, name, stores, engine, running, quality_here)
            monkeypatch.setattr(commands, "make_parts", made.parts)
            yield made
    finally:
        for instance in engine.instances():
            engine.stop(instance, 0.0)


def test_a_rollback_outlives_nginx_and_s3_and_comes_to_its_end(scene: Scene) -> None:
    stores, do, step = scene.stores, scene.do, scene.step
    scene.plan()

    stores.kill_s3()  # the manifest of the target cannot be read: that is no bad target
    scene.fails(SILENT_FILES, *step("validate"))
    stores.start()
    for name in ("validate", "start", "check", "move 0"):
        assert do(*step(name))["done"]
    assert scene.weights()["old"] == 50

    scene.kill_nginx()
    scene.fails(SILENT_ROUTE, *step("move 1"))
    assert len(scene.engine.instances()) == 2, "nothing is ended while nobody can be asked"
    scene.start_nginx()
    assert scene.weights()["old"] == 50, "it comes back with the table that was in force"
    assert do(*step("move 1"))["done"]
    (new,) = [name for name, weight in scene.weights().items() if weight == 100]

    stores.kill_s3()  # evidence stays on the machine and delays nothing
    assert do(*step("retire"))["done"]
    (retired,) = scene.journal()["retired"]
    assert "not uploaded" in retired["evidence"]["problem"]
    assert Path(retired["evidence"]["archive"]).is_file()
    assert not scene.engine.is_running(scene.old)
    scene.fails(SILENT_FILES, *step("recover"))
    stores.start()
    assert do(*step("recover"))["done"]
    ended = do(*step("report"))
    assert (ended["state"], scene.journal()["state"]) == ("done", "done")
    assert ended["url"]

    (left,) = scene.engine.instances()
    assert scene.running.route.table().backends == (Backend(new, address(left), 100),)
    assert is_healthy(address(left))
    (record,) = scene.incidents.history(scene.name)
    assert (record.state, record.target_snapshot_id) == ("done", scene.good.snapshot_id)
    aliases = scene.snapshots.aliases(scene.name)
    assert aliases[SERVING] == aliases[LAST_HEALTHY] == scene.good.snapshot_id
    scene.check_every_table()


def test_an_abort_goes_back_without_mlflow_and_tells_it_later(scene: Scene) -> None:
    scene.plan()
    for name in ("validate", "start", "check"):
        assert scene.do(*scene.step(name))["done"]
    scene.stores.mlflow.kill()  # what has begun needs nothing of it to move
    assert scene.do(*scene.step("move 0"))["done"]
    assert scene.weights()["old"] == 50

    scene.kill_nginx()
    abort = ("abort", "--service", scene.name, "--reason", "everything is dead")
    scene.fails(SILENT_ROUTE, *abort)
    assert len(scene.engine.instances()) == 2, "who serves is not ended before the weights are back"
    scene.start_nginx()
    assert scene.do(*abort)["state"] == "aborted"
    assert scene.running.route.table() == scene.start
    assert scene.engine.instances() == (scene.old,)
    scene.fails(SILENT_MLFLOW, "plan", "--service", scene.name)  # the next one waits for it

    scene.stores.start()
    (record,) = scene.incidents.history(scene.name)
    assert record.state == "rolling", "nobody could tell it"
    left = find_left_behind(load(scene.config), scene.name, record, record.opened_at)
    assert left is not None and left.end == "told"
    assert scene.do("reconcile")["reconciled"] == []
    (record,) = scene.incidents.history(scene.name)
    assert record.state == "aborted"
    assert scene.snapshots.aliases(scene.name)[SERVING] == scene.bad.snapshot_id
    scene.check_every_table()
