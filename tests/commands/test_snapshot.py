"""The command on the store in memory; ``tests/adapters/mlflow/test_snapshots.py`` has the real one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from quality_lib import wiring
from quality_lib.adapters.files.baseline import read_baseline, write_baseline
from quality_lib.commands.snapshot import app
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.golden.baseline import SCHEMA, Baseline
from quality_lib.records import Summary, Tri
from quality_lib.snapshots.eligibility import HealthRecord
from quality_lib.snapshots.manifest import EnvironmentRecord
from quality_lib.snapshots.startup_check import ServerFacts
from tests.fakes_snapshots import InMemorySnapshots

CONFIG = """
services:
  chat:
    endpoint: http://127.0.0.1:1
    model: small
    weights: model
    engine: {kind: local, args: [--max-model-len, "2048"]}
"""

FACTS = ServerFacts(
    vllm_version="0.32.0",
    args=("--port", "8000", "--max-model-len", "2048", "--api-key", "s3cret"),
    dtype="bfloat16",
    kv_cache_dtype="auto",
    max_model_len=2048,
    generation_config={},
    chat_template_sha256="c" * 64,
    tokenizer_sha256="d" * 64,
    adapters=(),
    live_fingerprint="v1-layout-root",
)


BASELINE = Baseline(
    schema=SCHEMA,
    service="chat",
    model="small",
    golden_digest="9" * 64,
    created_at="2026-01-01T00:00:00+00:00",
    run_ids=("one", "two"),
    contract={},
    cases={},
)


class Service:
    """A configured service with its folder, its server's facts and a store in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: ServerFacts | OutsideFailure = FACTS
        self.store = InMemorySnapshots()
        self.health: tuple[HealthRecord, ...] = ()
        (folder / "model").mkdir()
        (folder / "model" / "model.safetensors").write_bytes(b"weights")
        (folder / "model" / "config.json").write_bytes(b"{}")
        (folder / "quality.yaml").write_text(CONFIG)

    def run(self, *args: str) -> Result:
        config = ["--service", "chat", "--config", str(self.folder / "quality.yaml")]
        return CliRunner().invoke(app, [*args, *config])

    def json(self, *args: str, exit_code: int = 0) -> Any:
        done = self.run(*args, "--json")
        assert done.exit_code == exit_code, (done.output, done.exception)
        return json.loads(done.stdout)

    def server_facts(self, _: object) -> ServerFacts:
        if isinstance(self.facts, OutsideFailure):
            raise self.facts
        return self.facts


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    # The command line picks its adapters in wiring and nowhere else.
    service = Service(tmp_path)
    monkeypatch.setattr(wiring, "snapshot_store", lambda settings: service.store)
    monkeypatch.setattr(wiring, "server_facts", service.server_facts)
    monkeypatch.setattr(wiring, "server_environment", lambda s: EnvironmentRecord(gpu="H100"))
    monkeypatch.setattr(wiring, "health_history", lambda settings, name: service.health)
    return service


def test_create_stores_what_serves(chat: Service) -> None:
    made = chat.json("create", "--by", "ada", "--alias", "serving", "--health", "healthy")
    assert (made["health"], made["aliases"], made["created_by"]) == ("healthy", ["serving"], "ada")
    manifest = chat.store.get("chat", "serving").manifest
    assert [file.path for file in manifest.weights.files] == ["config.json", "model.safetensors"]
    assert manifest.serving.dtype == "bfloat16"
    assert manifest.environment.gpu == "H100"
    assert "s3cret" not in manifest.to_canonical_json()


def test_a_dry_run_stores_nothing(chat: Service) -> None:
    shown = chat.json("create", "--dry-run")
    assert shown["serving"]["vllm_version"] == "0.32.0"
    assert chat.store.list("chat") == ()


def test_without_the_server_its_facts_stay_unrecorded(chat: Service) -> None:
    chat.facts = OutsideFailure("down")
    made = chat.json("create", "--no-live")
    serving = chat.store.get("chat", made["snapshot_id"]).manifest.serving
    assert (serving.dtype, serving.args) == (None, ("--max-model-len", "2048"))


def test_a_dead_server_is_told(chat: Service) -> None:
    chat.facts = OutsideFailure("nobody answers")
    assert isinstance(chat.run("create").exception, OutsideFailure)


def test_a_server_of_another_folder_is_no_snapshot_of_this_one(chat: Service) -> None:
    """So it is after a rollback: both folders and the line to change are named, nothing is stored."""
    (chat.folder / "other").mkdir()
    chat.facts = replace(FACTS, weights_path=str(chat.folder / "other"))
    error = chat.run("create").exception
    assert isinstance(error, BadInput) and error.exit_code == 2
    assert (error.file, error.line) == (str(chat.folder / "quality.yaml"), 6)
    assert error.field == "services.chat.weights"
    assert f"serves {chat.folder / 'other'}, configured is {chat.folder / 'model'}" in str(error)
    assert f"write 'weights: {chat.folder / 'other'}' there" in str(error)
    assert chat.store.list("chat") == ()
    (chat.folder / "other" / "model.safetensors").write_bytes(b"weights")
    text = (chat.folder / "quality.yaml").read_text()
    (chat.folder / "quality.yaml").write_text(text.replace("weights: model", "weights: other"))
    assert chat.json("create")["number"] == 1, "the named fix helps"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["create", "--alias", "champion"], "no alias 'champion'"),
        (["create", "--baseline", "nowhere"], "no folder with a baseline"),
        (["verify", "serving"], "no snapshot of 'chat' carries the alias"),
        (["show", "ffffff"], "there is no snapshot"),
        (["alias", "serving", "ffffff"], "there is no snapshot"),
    ],
)
def test_wrong_use_is_told(chat: Service, args: list[str], told: str) -> None:
    done = chat.run(*args)
    assert isinstance(done.exception, BadInput)
    assert told in str(done.exception)


def test_verify_passes_what_did_not_change(chat: Service) -> None:
    chat.json("create", "--alias", "serving")
    result = chat.json("verify", "serving")
    assert (result["outcome"], result["differences"]) == ("PASSED", [])
    assert {verdict["outcome"] for verdict in result["server"]} == {"PASSED"}


def test_verify_names_a_changed_byte(chat: Service) -> None:
    chat.json("create", "--alias", "serving")
    (chat.folder / "model" / "model.safetensors").write_bytes(b"weightz")
    result = chat.json("verify", "serving", exit_code=1)
    assert result["differences"][0]["path"] == "model.safetensors"
    done = chat.run("verify", "serving")
    assert "model.safetensors: has SHA-256" in done.stdout


def test_verify_hashes_the_folder_that_is_given(chat: Service) -> None:
    chat.json("create", "--alias", "serving")
    (chat.folder / "copy").mkdir()
    result = chat.json("verify", "serving", "--weights", str(chat.folder / "copy"), exit_code=1)
    assert {difference["kind"] for difference in result["differences"]} == {"missing"}


@pytest.mark.parametrize(
    ("facts", "outcome", "exit_code"),
    [
        (replace(FACTS, dtype="float16"), "FAILED", 1),
        (replace(FACTS, dtype=None), "PASSED", 0),
        (ServerFacts(), "UNJUDGED", 4),
        (OutsideFailure("nobody answers"), "UNJUDGED", 3),
    ],
)
def test_verify_asks_the_server(
    chat: Service, facts: ServerFacts | OutsideFailure, outcome: str, exit_code: int
) -> None:
    chat.json("create", "--alias", "serving")
    chat.facts = facts
    assert chat.json("verify", "serving", exit_code=exit_code)["outcome"] == outcome
    assert chat.json("verify", "serving", "--no-server")["server"] == []


def test_a_server_that_moved_to_another_folder_fails(chat: Service) -> None:
    chat.json("create", "--alias", "serving")
    (chat.folder / "other").mkdir()
    chat.facts = replace(FACTS, weights_path=str(chat.folder / "other"))
    result = chat.json("verify", "serving", exit_code=1)
    last = result["server"][-1]
    assert (last["reason"], last["outcome"]) == ("startup_weights_path", "FAILED")


def test_after_a_rollback_the_files_that_serve_are_verified(chat: Service) -> None:
    chat.json("create", "--alias", "serving")
    (chat.folder / "bad").mkdir()
    text = (chat.folder / "quality.yaml").read_text()
    (chat.folder / "quality.yaml").write_text(text.replace("weights: model", "weights: bad"))
    chat.facts = replace(FACTS, weights_path=str(chat.folder / "model"))
    result = chat.json("verify", "serving")
    assert (result["folder"], result["differences"]) == (str(chat.folder / "model"), [])
    assert result["server"][-1]["outcome"] == "SUSPECT", "the configuration names another one"
    (chat.folder / "model" / "model.safetensors").write_bytes(b"weightz")
    assert chat.json("verify", "serving", exit_code=1)["differences"]


def test_list_show_alias_history(chat: Service) -> None:
    made = chat.json("create", "--by", "ada")["snapshot_id"]
    moved = chat.json("alias", "candidate", made[:8], "--reason", "try it", "--by", "bob")
    assert moved["aliases"] == {"candidate": made}
    assert [s["snapshot_id"] for s in chat.json("list")["snapshots"]] == [made]
    assert chat.json("show", "candidate")["manifest"]["created_by"] == "ada"
    trail = chat.json("history")["history"]
    assert [(e["by"], e["action"]) for e in trail] == [("ada", "created"), ("bob", "alias_set")]
    for command in (["list"], ["show", made], ["history"]):
        assert made[:12] in chat.run(*command).stdout


def test_an_empty_list_is_said_and_no_error(chat: Service) -> None:
    assert chat.json("list") == {"service": "chat", "snapshots": []}
    assert chat.run("list").exit_code == 0


def test_eligible_follows_the_verdicts(chat: Service) -> None:
    assert chat.json("eligible", exit_code=4)["eligible"] is False
    chat.health = (HealthRecord(datetime.now(UTC), Summary.HEALTHY, Tri.NO, "k"),)
    assert chat.json("eligible", exit_code=4)["eligible"] is False
    text = (chat.folder / "quality.yaml").read_text()
    (chat.folder / "quality.yaml").write_text(text + "    stable_hours: 0\n")
    assert chat.json("eligible")["eligible"] is True
    (chat.folder / "other").mkdir()
    chat.facts = replace(FACTS, weights_path=str(chat.folder / "other"))
    answer = chat.json("eligible", exit_code=4)
    assert answer["eligible"] is False
    for part in (f"serves {chat.folder / 'other'}", f"configured is {chat.folder / 'model'}",
                 "quality.yaml:6", "services.chat.weights"):  # fmt: skip
        assert part in answer["reason"]
    chat.facts = OutsideFailure("nobody answers")
    assert isinstance(chat.run("eligible").exception, OutsideFailure)


def test_the_baseline_travels_with_the_snapshot(chat: Service, tmp_path: Path) -> None:
    folder = tmp_path / "baseline"
    write_baseline(folder / "baseline.json", BASELINE)
    (folder / "answers.parquet").write_bytes(b"rows")
    made = chat.json("create", "--baseline", str(folder))
    stored = chat.store.get("chat", made["snapshot_id"])
    assert made["files"] == ["baseline/answers.parquet", "baseline/baseline.json"]
    assert stored.manifest.golden is not None
    assert stored.manifest.golden.digest == BASELINE.golden_digest
    got = chat.store.fetch_file(stored, stored.manifest.golden.baseline_uri, tmp_path / "b.json")
    assert read_baseline(got) == BASELINE
