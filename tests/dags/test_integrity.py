"""What holds for every DAG file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.dags.conftest import ROOT

FILES = sorted((ROOT / "dags").glob("*.py"))


def parse(file: Path, **env: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(file)
    assert bag.import_errors == {}
    return bag.dags


parsed = cache(parse)
"""For the tests that only look at a DAG."""


def test_there_are_dags() -> None:
    rollback = {"decide_rollback", "rollback", "abort_rollback", "prune"}
    assert {file.stem for file in FILES} >= {"golden_hourly", "register_snapshot"} | rollback


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_one_file_is_one_dag_of_its_name_with_docs_tags_owner_and_a_form(file: Path) -> None:
    dags = parsed(file)
    assert list(dags) == [file.stem]
    dag = dags[file.stem]
    assert "|" in dag.doc_md  # the table of colours
    assert dag.description
    assert dag.tags
    assert not dag.catchup
    assert dag.max_active_runs == {"rollback": 16, "decide_rollback": 4}.get(file.stem, 1)
    assert {task.owner for task in dag.tasks} == {"llm-serving"}
    endless = {t.task_id for t in dag.tasks if not t.execution_timeout}
    assert endless <= {"judge", "recorded", "planned", "approve_first", "approve_last"}
    assert "service" in dag.params
    for param in map(dag.params.get_param, dag.params):
        assert param.schema["title"]
        assert param.description


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_failure_of_a_task_is_told(file: Path) -> None:
    (dag,) = parsed(file).values()
    assert all(t.on_failure_callback for t in dag.tasks if t.task_type != "EmptyOperator")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_gpu_pool_is_shipped(file: Path) -> None:
    shipped = json.loads((ROOT / "docker/airflow/pools.json").read_text())
    (dag,) = parsed(file).values()
    assert {task.pool for task in dag.tasks} - {"default_pool"} <= set(shipped)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_parsing_reads_no_configuration_and_is_the_same_every_time(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setenv("QUALITY_CONFIG", "/nowhere/quality.yaml")
    first, second = (
        json.dumps(DagSerialization.to_dict(parse(file)[file.stem]), sort_keys=True)
        for _ in range(2)
    )
    assert first == second


def test_the_gpu_queue_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUALITY_GPU_QUEUE", "gpu-workers")
    dag = parse(ROOT / "dags/golden_hourly.py")["golden_hourly"]
    assert {t.task_id for t in dag.tasks if t.queue == "gpu-workers"} == {"run_golden"}


def test_the_plugin_scanner_sees_one_file_and_it_loads() -> None:
    code = (
        "import json; from airflow import plugins_manager as p; p.ensure_plugins_loaded();"
        "print(json.dumps([[x.name for x in p._get_plugins()[0]], p.get_import_errors()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ}, capture_output=True, text=True, check=True
    )
    names, errors = json.loads(done.stdout.splitlines()[-1])
    assert "quality" in names
    assert errors == {}
    assert not {"commands", "events", "operators"} & set(names)
