"""Both DAGs against a real vLLM server and a real MLflow: registered, then healthy, then a dead checker."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import yaml

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.files.cases import load_cases, write_cases
from tests.dags.conftest import Receiver
from tests.dags.run_dag import run_dag

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.stack,
    pytest.mark.usefixtures("nothing_told"),
]
SERVICE = "dag-chat"


@pytest.fixture
def config(
    tmp_path: Path, vllm_server: Instance, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    cases = tmp_path / "cases.jsonl"
    write_cases(cases, [c for c in load_cases("builtin:core") if "core" in c.tags][:6])
    path = tmp_path / "quality.yaml"
    entry = {
        "endpoint": vllm_server.endpoint,
        "model": vllm_server.served_name,
        "weights": str(vllm_server.model_path),
        "golden": {"cases": str(cases), "repeats": 2, "concurrency": 4},
    }
    data = {
        "services": {SERVICE: entry},
        "stores": {"mlflow": mlflow_uri, "work_dir": str(tmp_path / "runs")},
        "alerts": {"http_conn_id": "quality_alerts"},
    }
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    monkeypatch.setenv("QUALITY_CONFIG", str(path))
    monkeypatch.delenv("QUALITY_PYTHON", raising=False)
    return path


def test_the_story_of_a_service(config: Path, receiver: Receiver, mlflow_uri: str) -> None:
    first = run_dag("golden_hourly", service=SERVICE)
    assert first.tasks["judge", SERVICE] == "skipped", "without a snapshot nothing can be judged"
    assert [event["name"] for event in receiver.events] == ["no_data"]

    registered = run_dag("register_snapshot", service=SERVICE, force=True, reason="test")
    assert registered.state == "success"
    assert receiver.events[-1]["name"] == "snapshot_registered"

    healthy = run_dag("golden_hourly", service=SERVICE)
    assert healthy.state == "success"
    assert healthy.tasks["judge", SERVICE] == "success"
    experiments = httpx.get(
        f"{mlflow_uri}/api/2.0/mlflow/experiments/get-by-name",
        params={"experiment_name": f"quality/{SERVICE}/golden"},
    ).json()
    runs = httpx.post(
        f"{mlflow_uri}/api/2.0/mlflow/runs/search",
        json={"experiment_ids": [experiments["experiment"]["experiment_id"]]},
    ).json()["runs"]
    assert len(runs) == 1
    measured = {m["key"]: m["value"] for m in runs[0]["data"]["metrics"]}
    assert measured["logprob_delta.raw_scored"] == 0.0
    assert measured["changed"] == 0.0

    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    data["services"][SERVICE]["endpoint"] = "http://127.0.0.1:9"
    config.write_text(yaml.safe_dump(data), encoding="utf-8")
    broken = run_dag("golden_hourly", service=SERVICE)
    assert broken.tasks["run_golden", SERVICE] == "failed"
    assert broken.tasks["judge", SERVICE] != "failed", "a broken checker is not bad quality"
    assert receiver.events[-1]["name"] == "checker_broken"
