"""Who is asked, and what an answer means; the waiting itself is Airflow's (see test_on_scheduler.py)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from quality_airflow import incident_state
from quality_airflow.approval import Approval
from quality_airflow.assets import ROLLBACK
from quality_airflow.incident_state import Progress

from tests.dags.conftest import Library, plan_of
from tests.dags.fake_context import Ti, context

ANSWERED = datetime(2026, 3, 1, tzinfo=UTC)


def approval(mode: str = "approve-first") -> Approval:
    return Approval(task_id="approve_first", mode=mode, question="start the rollback?")


def answer(option: str) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {},
        "responded_at": ANSWERED,
        "responded_by_user": {"id": "7", "name": "ada"},
    }


@pytest.mark.parametrize("mode", ["auto", "approve-last"])
def test_nobody_is_asked_in_another_mode(mode: str) -> None:
    plan = plan_of("chat", mode)["json"]
    assert approval().execute(context(Ti(plan=plan))) == {"asked": False}


@pytest.mark.parametrize("plan", [None, plan_of("chat", "approve-first", dry_run=True)["json"]])
def test_nobody_is_asked_without_a_plan_and_in_a_dry_run(plan: Any) -> None:
    with pytest.raises(AirflowSkipException):
        approval().execute(context(Ti(plan=plan)))


def test_a_yes_names_who_gave_it() -> None:
    seen = context(Ti(plan=plan_of("chat", "approve-first")["json"]))
    task = approval()
    given = task.execute_complete(seen, answer("Approve"))
    assert given == {"asked": True, "approved_by": "ada", "at": str(ANSWERED)}
    assert task.run["headline"] == "approved by ada"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (answer("Reject"), "ada rejected"),
        ({"error": "late", "error_type": "timeout"}, "nobody approved"),
    ],
    ids=["rejected", "timed out"],
)
def test_a_no_and_no_answer_fail_at_once(event: dict[str, Any], said: str) -> None:
    seen = context(Ti(plan=plan_of("chat", "approve-first")["json"]))
    with pytest.raises(AirflowFailException, match=said):
        approval().execute_complete(seen, event)


def test_a_yes_after_the_abort_starts_nothing() -> None:
    seen = context(Ti(plan=plan_of("chat", "approve-first")["json"]))
    ended = Progress("chat-abc-0", "/d", "r", "aborted", ANSWERED.isoformat())
    incident_state.remember(seen["asset_state_store"][ROLLBACK], "chat", ended)
    with pytest.raises(AirflowFailException, match="aborted"):
        approval().execute_complete(seen, answer("Approve"))


def test_a_slip_in_the_mode_is_seen_while_parsing() -> None:
    with pytest.raises(ValueError, match="approve-frist"):
        approval("approve-frist")


def test_the_patience_is_the_services(library: Library) -> None:
    library.config.write_text(
        "services: {chat: {endpoint: 'http://x', model: m, weights: w, "
        "rollback: {approval_timeout_minutes: 7}}}"
    )
    assert approval()._patience({"service": "chat"}) == 7.0
