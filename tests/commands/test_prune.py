"""``quality prune`` and ``quality incident`` as a person runs them, over a real MLflow."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from quality_lib import wiring
from quality_lib.cli import app
from quality_lib.settings import load
from quality_lib.snapshots.ports import Health
from tests.contracts.incident_store import incident
from tests.snapshots.builders import manifest

OLD = 1_700_000_000


def config_in(folder: Path, mlflow: str, service: str) -> Path:
    file = folder / "quality.yaml"
    one = {"endpoint": "http://127.0.0.1:9", "model": "m", "weights": str(folder)}
    stores = {"mlflow": mlflow, "work_dir": str(folder / "runs")}
    file.write_text(
        yaml.safe_dump({
            "services": {service: one},
            "stores": stores,
            "retention": {"keep_healthy": 1, "snapshot_days": 30},
        })
    )
    return file


def old_run(folder: Path, service: str, name: str = "old") -> Path:
    path = folder / "runs" / service / name
    path.mkdir(parents=True)
    (path / "run.json").write_text("{}")
    for one in (path / "run.json", path):
        os.utime(one, (OLD, OLD))
    return path


def run(*args: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*args, "--json"])
    assert result.exit_code == code, result.output + repr(result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_with_a_silent_mlflow_the_folders_are_pruned_and_the_rest_is_told(tmp_path: Path) -> None:
    config = config_in(tmp_path, "http://127.0.0.1:9", "chat")
    path, young = old_run(tmp_path, "chat"), old_run(tmp_path, "chat", "young")
    os.utime(young / "run.json")
    dry = run("prune", "--config", str(config), "--dry-run", code=3)
    assert [item["name"] for item in dry["would_remove"]] == [str(path)]
    assert path.exists()
    done = run("prune", "--config", str(config), code=3)
    assert [item["name"] for item in done["removed"]] == [str(path)]
    assert "snapshots of chat: MLflow at http://127.0.0.1:9 does not answer" in done["problems"][0]
    assert not path.exists()
    assert young.exists()


def test_an_unknown_service_is_refused(tmp_path: Path) -> None:
    config = config_in(tmp_path, "http://127.0.0.1:9", "chat")
    result = CliRunner().invoke(app, ["prune", "--config", str(config), "--service", "nobody"])
    assert result.exit_code != 0
    assert "there is no service 'nobody'" in str(result.exception)


@pytest.mark.stack
def test_snapshots_go_by_the_rules_and_incidents_are_shown(tmp_path: Path, mlflow_uri: str) -> None:
    service = f"chat-{uuid.uuid4().hex[:8]}"
    config = config_in(tmp_path, mlflow_uri, service)
    settings = load(config)
    store = wiring.snapshot_store(settings)
    made = {
        name: store.create(service, manifest(created_by=name), {}, health).snapshot_id
        for name, health in (
            ("older", Health.HEALTHY),
            ("named", Health.DEGRADED),
            ("pinned", Health.DEGRADED),
            ("bad", Health.DEGRADED),
            ("healthy", Health.HEALTHY),
        )
    }
    target = ("--config", str(config), "--service", service)
    assert run("snapshot", "pin", made["pinned"], *target)["is_pinned"] is True
    opened = incident(service, bad_snapshot_id=made["named"])
    wiring.incident_store(settings).open(opened, {"headline": "bad"})
    dry = run("prune", *target, "--dry-run")
    gone = {item["name"] for item in dry["would_remove"]}
    assert gone == {made["older"], made["bad"]}
    assert len(store.list(service)) == 5
    done = run("prune", *target)
    assert {item["name"] for item in done["removed"]} == gone
    assert {e.snapshot_id for e in store.list(service)} == set(made.values()) - gone
    assert run("prune", *target)["removed"] == []

    (listed,) = run("incident", "list", *target)["incidents"]
    assert (listed["incident_id"], listed["state"]) == (opened.incident_id, "open")
    shown = run("incident", "show", opened.incident_id, "--config", str(config))
    assert shown["decision"] == {"headline": "bad"}
    assert shown["opened_at"] == opened.opened_at.isoformat()
    wiring.incident_store(settings).update(replace(opened, state="done"))
    for args in (("incident", "list", *target), ("incident", "show", opened.incident_id)):
        more = () if "--service" in args else ("--config", str(config))
        told = CliRunner().invoke(app, [*args, *more])
        assert told.exit_code == 0
        assert "done" in told.stdout
