"""The steps of a rollback without Airflow: whose turn it is, what leads back, what is remembered."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)
from quality_airflow import incident_state
from quality_airflow.assets import ROLLBACK
from quality_airflow.commands import OutsideFailed
from quality_airflow.incident_state import Progress
from quality_airflow.rollback import (
    BeginRollback,
    MoveTraffic,
    PlanRollback,
    RollbackStep,
    TakeWeightsBack,
)

from tests.dags.conftest import Library, plan_of, stepped
from tests.dags.fake_context import NOW, Ti, context

PLAN = plan_of("chat")["json"]
BEGUN = Progress("chat-abc-0", "/incidents/chat/chat-abc-0", "mine", "moving", NOW.isoformat())


def begun(ti: Ti, progress: Progress | None = BEGUN, **params: Any) -> dict[str, Any]:
    """Return the context of a rollback that has been planned."""
    seen = context(ti, service="chat", **params)
    if progress is not None:
        incident_state.remember(seen["asset_state_store"][ROLLBACK], "chat", progress)
    return seen


def kept(seen: dict[str, Any]) -> Progress:
    progress = incident_state.recall(seen["asset_state_store"][ROLLBACK], "chat")
    assert progress is not None
    return progress


@pytest.mark.parametrize(
    ("driver", "going_on", "phase", "is_refused"),
    [
        ("other", ("other",), "moving", True),
        ("other", ("other",), "moved", True),
        ("other", (), "moving", False),
        ("other", ("other",), "done", False),
        ("rollback__chat-abc-0", ("rollback__chat-abc-0",), "moving", False),
    ],
    ids=["goes on", "is being finished", "dead driver", "closed", "own retry"],
)
def test_a_rollback_has_one_driver(
    library: Library,
    driver: str,
    going_on: tuple[str, ...],
    phase: incident_state.Phase,
    is_refused: bool,
) -> None:
    other = Progress("chat-abc-0", "/d", driver, phase, NOW.isoformat())
    seen = begun(Ti(going_on=going_on), other)
    if is_refused:
        with pytest.raises(AirflowFailException, match="goes on in other"):
            PlanRollback(task_id="plan").execute(seen)
        assert library.calls("rollback") == []
        return
    PlanRollback(task_id="plan").execute(seen)
    assert kept(seen).dag_run_id == "rollback__chat-abc-0"


def test_an_empty_field_is_left_to_the_configuration(library: Library) -> None:
    empty = dict.fromkeys(("target", "strategy", "step_percent", "soak", "mode", "incident_id"))
    PlanRollback(task_id="plan").execute(begun(Ti(), None, **empty, reason=""))
    (call,) = library.calls("rollback plan")
    assert call["arguments"][2:6] == ["--service", "chat", "--by", "airflow"]


def test_a_soak_of_nothing_is_not_an_empty_field(library: Library) -> None:
    PlanRollback(task_id="plan").execute(begun(Ti(), None, soak=0, step_percent=100))
    (call,) = library.calls("rollback plan")
    assert call["arguments"][4:8] == ["--step-percent", "100", "--soak", "0"]


def test_the_moves_of_the_plan_are_what_is_mapped() -> None:
    moves = BeginRollback(task_id="begin").execute(begun(Ti(plan=PLAN)))
    assert moves == [{"index": 0, "name": "50 %"}, {"index": 1, "name": "100 %"}]


@pytest.mark.parametrize(
    ("before", "raised"),
    [
        ("success", None),
        ("up_for_retry", AirflowRescheduleException),
        ("up_for_reschedule", AirflowRescheduleException),
        ("scheduled", AirflowRescheduleException),
        ("failed", AirflowSkipException),
        ("skipped", AirflowSkipException),
    ],
)
def test_a_move_waits_for_the_one_before_it(
    library: Library, before: str, raised: type[Exception] | None
) -> None:
    ti = Ti(plan=PLAN, map_index=1, states={"move_0": before}, task_id="move")
    seen = begun(ti)
    task = MoveTraffic(task_id="move", move={"index": 1, "name": "100 %"})
    if raised is None:
        task.execute(seen)
        assert kept(seen).phase == "moved"
        return
    with pytest.raises(raised):
        task.execute(seen)
    assert library.calls("rollback step") == []


def test_only_the_last_move_makes_the_target_serve_everything(library: Library) -> None:
    seen = begun(Ti(plan=PLAN, map_index=0))
    MoveTraffic(task_id="move", move={"index": 0, "name": "50 %"}).execute(seen)
    assert (kept(seen).phase, kept(seen).step) == ("moving", "move 50 %")


@pytest.mark.parametrize(
    ("answer", "raised", "asks_abort"),
    [
        (stepped("recover", 1, "still bad"), AirflowFailException, True),
        (stepped("recover", 1, state="abort_requested"), AirflowFailException, True),
        ({"code": 4, "stderr": "error: no answers"}, OutsideFailed, False),
        (stepped("recover", 4), OutsideFailed, False),
        ({"code": 3, "stderr": "error: away"}, OutsideFailed, False),
        ({"code": 2, "stderr": "error: no such step"}, AirflowFailException, False),
    ],
    ids=["bad", "abort asked", "no data", "no data, told", "outside", "input"],
)
def test_what_ends_a_step_and_what_leads_back(
    library: Library, answer: dict[str, Any], raised: type[Exception], asks_abort: bool
) -> None:
    library.answer({"rollback step recover": [answer]})
    seen = begun(Ti(plan=PLAN))
    with pytest.raises(raised):
        RollbackStep(task_id="recover", step="recover").execute(seen)
    assert kept(seen).asks_abort is asks_abort
    assert kept(seen).phase == "moving"


@pytest.mark.parametrize(
    ("states", "asks_abort", "goes_back"),
    [
        ({"validate": "failed", "move": "upstream_failed"}, False, True),
        ({"approve_first": "failed"}, False, True),
        ({"check": "success", "move_0": "success", "move_1": "failed"}, False, True),
        ({"check": "success", "move_0": "success", "move_1": "success"}, False, False),
        ({"check": "success", "move_0": "success", "move_1": "success"}, True, True),
    ],
    ids=["validate", "rejected", "last move", "only the rest", "bad after the last move"],
)
def test_when_the_starting_weights_come_back(
    library: Library, states: dict[str, str], asks_abort: bool, goes_back: bool
) -> None:
    seen = begun(Ti(plan=PLAN, states=states))
    if asks_abort:
        incident_state.ask_abort(seen["asset_state_store"][ROLLBACK], "chat")
    task = TakeWeightsBack(task_id="abort")
    if goes_back:
        task.execute(seen)
        assert kept(seen).phase == "aborted"
    else:
        with pytest.raises(AirflowSkipException, match="clear the red task"):
            task.execute(seen)
    assert len(library.calls("rollback step abort")) == goes_back


@pytest.mark.parametrize("stored", [None, 1, {}, {"incident_id": "i"}, {"unknown": 1}])
def test_an_unreadable_progress_is_none(stored: Any) -> None:
    assert Progress.read(stored) is None


def test_a_lost_progress_is_begun_again_from_the_plan(library: Library) -> None:
    seen = begun(Ti(plan=PLAN), None)
    RollbackStep(task_id="start", step="start").execute(seen)
    assert kept(seen).starting_table["service"] == "chat"
    assert Progress.read(kept(seen).plain()) == kept(seen)
