"""The rollback through a real scheduler and REST API, as a user's clicks: asked, approved, timed out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from quality_lib.adapters.stack.airflow_client import FINAL_STATES, AirflowClient
from quality_lib.adapters.stack.local import LocalStack
from tests.dags.conftest import ROOT, Library, plan_of

pytestmark = pytest.mark.stack

PATIENCE_S = 600.0
"""For a machine that is ten times slower; here each wait takes seconds."""
READING_S = 3.0
CONFIG = """
services:
  chat: {endpoint: 'http://127.0.0.1:9', model: m, weights: w}
  code:
    {endpoint: 'http://127.0.0.1:9', model: m, weights: w, rollback: {approval_timeout_minutes: 0.02}}
stores: {work_dir: runs}
"""


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


@pytest.fixture
def airflow(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Generator[AirflowClient]:
    home: Path = tmp_path_factory.mktemp("scheduler")
    stack = LocalStack(home, ROOT, env={**os.environ}, has_schedules=False)
    stack.config.write_text(CONFIG)
    try:
        stack.up()
        with stack.airflow() as client:
            yield client
    finally:
        stack.down(discard=True)
        shutil.rmtree(home, ignore_errors=True)


def state_of(airflow: AirflowClient, run: str, task: str) -> str | None:
    states = {t.task_id: t.state for t in airflow.task_states("rollback", run)}
    return states.get(task)


def first_failure(airflow: AirflowClient, run: str) -> str:
    failed = [t for t in airflow.task_states("rollback", run) if t.state == "failed"]
    return f"{failed}\n" + "\n".join(airflow.task_log("rollback", run, task) for task in failed[:1])


def approve_until_ended(airflow: AirflowClient, run: str) -> str:
    """Say yes as the page *Required actions* does, a reading time after each question; give the end.

    A busy scheduler may lose a quick answer and ask again (see approval.py): then a person answers again.
    """
    seen: dict[int, float] = {}

    def ended() -> bool:
        for task in airflow.task_states("rollback", run):
            if task.state != "awaiting_input":
                continue
            if time.monotonic() - seen.setdefault(task.try_number, time.monotonic()) >= READING_S:
                path = f"/dags/rollback/dagRuns/{run}/taskInstances/{task.task_id}/-1/hitlDetails"
                body = {"chosen_options": ["Approve"], "params_input": {}}
                airflow._send("PATCH", path, json=body)
        return airflow.run_state("rollback", run) in FINAL_STATES

    wait_for(ended, "the approved run goes on")
    return airflow.run_state("rollback", run)


def test_a_person_is_asked_and_without_an_answer_nothing_happens(
    airflow: AirflowClient, library: Library
) -> None:
    library.answer({
        "rollback plan chat": [plan_of("chat", "approve-first")],
        "rollback plan code": [plan_of("code", "approve-first")],
    })
    airflow.wait_for_dag("rollback", PATIENCE_S)
    airflow.unpause("rollback")
    asked = airflow.trigger("rollback", {"service": "chat", "reason": "bad answers"})
    ignored = airflow.trigger("rollback", {"service": "code"})

    wait_for(
        lambda: state_of(airflow, asked, "approve_first") == "awaiting_input", "nobody was asked"
    )
    assert library.calls("rollback step", "chat") == [], "nothing is started before the yes"
    shown = airflow._send("GET", f"/dags/rollback/dagRuns/{asked}/hitlDetails")["hitl_details"][0]
    assert shown["subject"] == "chat: start the rollback?"
    assert "| 50 % | old 50 %, new 50 % |" in shown["body"]
    state = approve_until_ended(airflow, asked)
    assert state == "success", first_failure(airflow, asked)
    assert airflow.result("rollback", asked, "approve_first")["approved_by"] == "admin"
    moves = [call["arguments"] for call in library.calls("rollback step move", "chat")]
    assert [a[a.index("--index") + 1] for a in moves] == ["0", "1"]
    assert state_of(airflow, asked, "abort") == "skipped"
    assert state_of(airflow, asked, "stop_staging") == "success"

    assert airflow.wait("rollback", ignored, PATIENCE_S) == "failed"
    assert state_of(airflow, ignored, "approve_first") == "failed"
    assert state_of(airflow, ignored, "abort") == "success"
    assert {call["verb"] for call in library.calls("rollback step", "code")} == {
        "rollback step abort"
    }
