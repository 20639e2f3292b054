"""What is MLflow's own: a dead server, foreign hands on a snapshot, a writer that died half-way."""

from __future__ import annotations

import re
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.machine.ports import free_port
from quality_lib.adapters.mlflow.server import MlflowServer, slug
from quality_lib.adapters.mlflow.snapshot_files import stage, upload
from quality_lib.adapters.mlflow.snapshots import MlflowSnapshots
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.snapshots.audit import Action, AuditEntry, Result
from quality_lib.snapshots.ports import StoredSnapshot
from tests.snapshots.builders import manifest, with_baseline


@pytest.fixture
def service() -> str:
    return f"chat-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def store(mlflow_uri: str) -> MlflowSnapshots:
    return MlflowSnapshots(mlflow_uri)


@pytest.fixture
def client(mlflow_uri: str, store: MlflowSnapshots) -> Any:
    store.list("nothing")  # sets MLflow's short waits, and its telemetry off before the import
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=mlflow_uri, registry_uri=mlflow_uri)


@pytest.fixture
def silent_server() -> Generator[str]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


CALLS: list[Callable[[MlflowSnapshots], Any]] = [
    lambda store: store.list("chat"),
    lambda store: store.get("chat", "serving"),
    lambda store: store.create("chat", manifest(), {}),
    lambda store: store.audit("chat"),
    lambda store: store.set_alias("chat", "serving", "abcdef", "", "ada"),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_is_down_is_told_soon(call: Callable[[MlflowSnapshots], Any]) -> None:
    uri = f"http://ada:s3cret@127.0.0.1:{free_port()}"
    start = time.monotonic()
    with pytest.raises(
        OutsideFailure, match=r"MLflow at http://127\.0\.0\.1:\d+ does not answer"
    ) as e:
        call(MlflowSnapshots(uri))
    assert time.monotonic() - start < 10
    assert "s3cret" not in str(e.value)


def test_a_server_that_hangs_is_told_soon(silent_server: str) -> None:
    start = time.monotonic()
    with pytest.raises(OutsideFailure, match="does not answer"):
        MlflowSnapshots(silent_server).list("chat")
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("name", ["chat", "a_b-C9", "v2"])
def test_a_plain_name_stays(name: str) -> None:
    assert slug(name) == name


def test_names_that_mlflow_refuses_stay_apart() -> None:
    names = ["a/b", "a:b", "a.b", "a-b", "a%b", "a b", "日本"]
    slugs = {slug(name) for name in names}
    assert len(slugs) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", one) for one in slugs)


def _replace(client: Any, snapshot: StoredSnapshot, name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        client.log_model_artifacts(_version(client, snapshot).tags["snapshot.logged_model"], folder)


def _version(client: Any, snapshot: StoredSnapshot) -> Any:
    entry = snapshot.entry
    return client.get_model_version(f"{entry.service}-serving", str(entry.number))


@pytest.mark.stack
class TestForeignHands:
    def test_an_altered_manifest_is_refused(
        self, store: MlflowSnapshots, client: Any, service: str
    ) -> None:
        stored = store.create(service, manifest(), {})
        text = stored.manifest.to_canonical_json().replace('"ada"', '"eve"')
        _replace(client, stored, "manifest.json", text.encode())
        with pytest.raises(BadInput, match="was altered: its SHA-256 is"):
            store.get(service, stored.snapshot_id)

    def test_a_deleted_snapshot_is_told(
        self, store: MlflowSnapshots, client: Any, service: str
    ) -> None:
        stored = store.create(service, manifest(), {})
        client.delete_logged_model(_version(client, stored).tags["snapshot.logged_model"])
        with pytest.raises(
            BadInput, match=r"manifest.json of snapshot .* is not in MLflow any more"
        ):
            store.get(service, stored.snapshot_id)

    def test_an_altered_baseline_is_refused(
        self, store: MlflowSnapshots, client: Any, service: str, tmp_path: Path
    ) -> None:
        wanted, files = with_baseline(tmp_path)
        stored = store.create(service, wanted, files)
        _replace(client, stored, "baseline/baseline.json", b"{}")
        with pytest.raises(BadInput, match=r"baseline/baseline.json of snapshot .* was altered"):
            store.fetch_file(stored, "baseline/baseline.json", tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_an_altered_list_of_hashes_is_refused(
        self, store: MlflowSnapshots, client: Any, service: str, tmp_path: Path
    ) -> None:
        wanted, files = with_baseline(tmp_path)
        stored = store.create(service, wanted, files)
        tags = _version(client, stored).tags["snapshot.files"].replace('"baseline/answers', '"x')
        client.set_model_version_tag(f"{service}-serving", "1", "snapshot.files", tags)
        with pytest.raises(BadInput, match="list of its baseline's files was altered"):
            store.fetch_file(stored, "baseline/baseline.json", tmp_path / "out")

    def test_a_version_that_is_not_ours_is_not_shown(
        self, store: MlflowSnapshots, client: Any, service: str
    ) -> None:
        stored = store.create(service, manifest(), {})
        client.create_model_version(
            f"{service}-serving", "s3://bucket/elsewhere", await_creation_for=0
        )
        assert [e.snapshot_id for e in store.list(service)] == [stored.snapshot_id]


@pytest.mark.stack
class TestHalfWritten:
    def test_an_upload_that_never_ended(
        self, store: MlflowSnapshots, client: Any, mlflow_uri: str, service: str
    ) -> None:
        experiment = MlflowServer(mlflow_uri).experiment(client, f"quality/{service}/snapshots")
        tags = {"snapshot.id": manifest().snapshot_id}
        client.create_logged_model(experiment, name="half", tags=tags)
        assert store.list(service) == ()
        assert store.create(service, manifest(), {}).manifest == manifest()

    def test_a_writer_that_died_after_the_upload_is_completed(
        self, store: MlflowSnapshots, client: Any, mlflow_uri: str, service: str, tmp_path: Path
    ) -> None:
        wanted, files = with_baseline(tmp_path / "in")
        experiment = MlflowServer(mlflow_uri).experiment(client, f"quality/{service}/snapshots")
        staged = tmp_path / "staged"
        staged.mkdir()
        stage(staged, wanted, files)
        first = upload(client, experiment, service, wanted.snapshot_id, str(staged))
        assert store.list(service) == ()
        stored = store.create(service, wanted, files)
        assert _version(client, stored).tags["snapshot.logged_model"] == first
        assert stored.manifest == wanted

    def test_an_upload_that_fails_is_marked(
        self, client: Any, mlflow_uri: str, service: str, tmp_path: Path
    ) -> None:
        experiment = MlflowServer(mlflow_uri).experiment(client, f"quality/{service}/snapshots")
        (tmp_path / "manifest.json").symlink_to("nowhere")
        with pytest.raises(FileNotFoundError):
            upload(client, experiment, service, "f" * 64, str(tmp_path))
        (model,) = client.search_logged_models([experiment])
        assert str(model.status.value) == "FAILED"

    def test_an_action_whose_process_died_stays_in_the_trail(
        self, store: MlflowSnapshots, client: Any, mlflow_uri: str, service: str
    ) -> None:
        stored = store.create(service, manifest(), {})
        entry = AuditEntry(
            store.audit(service)[0].at,
            "ada",
            Action.ALIAS_SET,
            stored.snapshot_id,
            {"alias": "serving"},
        )
        experiment = MlflowServer(mlflow_uri).experiment(client, f"quality/{service}/audit")
        client.create_run(experiment, tags={"quality.audit": entry.to_json()})
        assert {e.result for e in store.audit(service)} == {Result.DONE, Result.UNKNOWN}


@pytest.mark.stack
def test_nothing_is_printed_on_stdout(
    store: MlflowSnapshots, service: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stored = store.create(service, manifest(), {})
    store.set_alias(service, "serving", stored.snapshot_id, "", "ada")
    assert capfd.readouterr().out == ""


@pytest.mark.stack
def test_a_deleted_experiment_is_told(store: MlflowSnapshots, client: Any, service: str) -> None:
    store.create(service, manifest(), {})
    trail = client.get_experiment_by_name(f"quality/{service}/audit")
    client.delete_experiment(trail.experiment_id)
    with pytest.raises(OutsideFailure, match="was deleted"):
        store.audit(service)
