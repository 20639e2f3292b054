"""The DAG ``rollback`` run by Airflow itself; only the library's commands are stood in for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quality_airflow import rollback
from quality_airflow.incident_state import Progress

from tests.dags.conftest import Library, Receiver, plan_of, stepped
from tests.dags.run_dag import Ended, run_dag

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("nothing_told")]

FORWARD = ["validate", "start", "check", "move", "move", "retire", "recover", "report"]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback, "POLL", timedelta(0))


def steps(library: Library) -> list[str]:
    """Return the steps that the library was asked for, in order."""
    calls = library.calls("rollback step")
    return [call["verb"].removeprefix("rollback step ") for call in calls]


def states(ended: Ended) -> dict[str, str]:
    return {f"{task} {index}".strip(): state for (task, index), state in ended.tasks.items()}


def progress(service: str = "chat") -> Progress | None:
    """Return what the state store holds."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        row = session.scalar(
            select(AssetStateStoreModel).where(AssetStateStoreModel.key == f"progress:{service}")
        )
        value: Any = None if row is None else row.value
    import json

    return Progress.read(json.loads(value) if isinstance(value, str) else value)


def test_a_rollback_goes_through_every_step_tells_each_and_keeps_its_progress(
    library: Library, receiver: Receiver
) -> None:
    ended = run_dag("rollback", service="chat", reason="bad answers", soak=5, step_percent=50)
    assert ended.state == "success"
    done = states(ended)
    assert done.pop("abort") == "skipped"
    assert set(done.values()) == {"success"}
    assert {"move 50 %", "move 100 %"} <= set(done)
    assert [s for s in steps(library) if s != "stop-staging"] == FORWARD
    assert steps(library).count("stop-staging") == 1
    (plan,) = library.calls("rollback plan")
    asked = plan["arguments"]
    assert asked[asked.index("--soak") + 1] == "5"
    assert asked[asked.index("--by") + 1] == "dag_test"
    assert "--target" not in asked, "what is left empty is left to the configuration"
    moves = [call["arguments"] for call in library.calls("rollback step move")]
    assert [arguments[arguments.index("--index") + 1] for arguments in moves] == ["0", "1"]
    told = [(event["name"], event["step"]) for event in receiver.events]
    assert told == [
        ("rollback_started", "plan"),
        *(("rollback_step", s) for s in ("validate", "start", "check", "move 50 %", "move 100 %")),
        ("rollback_step", "retire"),
        ("rollback_step", "recover"),
        ("rollback_done", "report"),
    ]
    assert receiver.events[0]["links"]["plan"].endswith("/tasks/plan/rendered_templates")
    kept = progress()
    assert kept is not None
    assert (kept.phase, kept.step, kept.revision) == ("done", "report", 7)
    assert kept.starting_table["backends"] == [{"name": "old", "weight": 100}]


def test_a_dry_run_ends_with_its_plan_and_touches_nothing(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"rollback plan": [plan_of("chat", dry_run=True, incident_dir=None)]})
    ended = run_dag("rollback", service="chat", dry_run=True)
    assert ended.state == "success"
    done = states(ended)
    assert done.pop("plan") == "success"
    assert set(done.values()) == {"skipped"}
    assert "--dry-run" in library.calls("rollback plan")[0]["arguments"]
    assert steps(library) == []
    assert progress() is None
    assert receiver.events == []


@pytest.mark.parametrize(
    ("step", "not_reached"),
    [("validate", {"start", "move"}), ("move", {"retire"})],
)
def test_a_failed_check_restores_the_starting_weights_and_ends_staging(
    library: Library, receiver: Receiver, step: str, not_reached: set[str]
) -> None:
    library.answer({f"rollback step {step}": [stepped(step, 1, "golden set failed")]})
    ended = run_dag("rollback", service="chat")
    assert ended.state == "failed"
    done = states(ended)
    assert done["abort"] == "success"
    assert done["stop_staging"] == "success"
    assert done["report"] == "upstream_failed"
    assert steps(library).count(step) == 1, "bad quality is not tried again"
    assert not not_reached & set(steps(library))
    names = [event["name"] for event in receiver.events]
    assert names[-2:] == ["rollback_step_failed", "rollback_aborted"]
    kept = progress()
    assert kept is not None
    assert kept.phase == "aborted"


def test_nothing_is_taken_back_when_the_target_serves_and_only_the_rest_failed(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"rollback step retire": [{"code": 3, "stderr": "error: S3 is away"}]})
    ended = run_dag("rollback", service="chat")
    assert ended.state == "failed"
    assert ended.tries["retire", ""] == 4
    assert states(ended)["abort"] == "skipped"
    assert "abort" not in steps(library)
    kept = progress()
    assert kept is not None
    assert (kept.phase, kept.step) == ("moved", "move 100 %")


def test_a_plan_that_cannot_be_made_changes_nothing(library: Library, receiver: Receiver) -> None:
    library.answer({"rollback plan": [{"code": 2, "stderr": "error: no healthy snapshot"}]})
    ended = run_dag("rollback", service="chat")
    assert ended.state == "failed"
    assert states(ended)["abort"] == "skipped"
    assert steps(library) == []
    (event,) = receiver.events
    assert event["name"] == "rollback_step_failed"
    assert "no healthy snapshot" in event["headline"]


def test_outside_faults_are_tried_again_in_order_and_a_staging_instance_that_stays_is_told(
    library: Library, receiver: Receiver
) -> None:
    away = {"code": 3, "stderr": "error: nginx does not answer"}
    library.answer({
        "rollback step move": [away, stepped("move")],
        "rollback step stop-staging": [{"code": 2, "stderr": "error: it does not end"}],
    })
    ended = run_dag("rollback", service="chat")
    assert ended.state == "success", "a staging instance that stays fails no rollback"
    moves = [call["arguments"] for call in library.calls("rollback step move")]
    assert [a[a.index("--index") + 1] for a in moves] == ["0", "0", "1"]
    assert receiver.named("staging_left")
