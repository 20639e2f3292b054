"""``decide_rollback`` and ``abort_rollback``; only the library's commands are stood in for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from quality_airflow import freshness, incident_state
from quality_airflow.abort_button import PressAbort
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.commands import OutsideFailed
from quality_airflow.decision import IsFresh, TakeBack, run_id
from quality_airflow.events import Event
from quality_airflow.incident_state import Progress
from quality_airflow.notifier import _true_event

from tests.dags.conftest import Library, Receiver, decided, stepped
from tests.dags.fake_context import Ti, context
from tests.dags.run_dag import run_dag

START = datetime(2026, 3, 1, tzinfo=UTC)
RUN = "rollback__chat-abc-0"


def unpause(dag_id: str, *, is_paused: bool = False) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(
            update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=is_paused)
        )


def runs_of_rollback() -> list[tuple[str, dict[str, object]]]:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(
            select(DagRun).where(
                DagRun.dag_id == "rollback", DagRun.run_id.startswith("rollback__")
            )
        )
        return [(run.run_id, dict(run.conf)) for run in found]


@pytest.mark.stack
@pytest.mark.usefixtures("nothing_told")
def test_an_incident_starts_one_rollback_and_an_advice_is_told_once(
    library: Library, receiver: Receiver
) -> None:
    advice = decided("alert", "cooling down")
    library.answer({
        "decide chat": [decided("rollback", "go back")],
        "decide code": [advice, advice, decided("wait", "no golden run yet")],
    })
    stopped = run_dag("decide_rollback", START)  # the DAG rollback is paused, as Airflow makes it
    assert stopped.state == "failed"
    assert stopped.tasks["start_rollback", "chat"] == "failed"
    assert stopped.tasks["start_rollback", "code"] == "skipped"
    assert runs_of_rollback() == []

    unpause("rollback")
    first = run_dag("decide_rollback", START + timedelta(minutes=5))
    assert first.tasks["start_rollback", "chat"] == "success"
    second = run_dag("decide_rollback", START + timedelta(minutes=10))
    assert second.state == "success"
    assert second.tasks["start_rollback", "chat"] == "skipped"
    assert second.tasks["decide", "code"] == "skipped", "what is not known is pink"
    conf = {"service": "chat", "incident_id": "chat-abc-0", "mode": "auto", "reason": "go back"}
    assert runs_of_rollback() == [(RUN, conf)]

    told = sorted((event["name"], event["service"]) for event in receiver.events)
    assert told == [("rollback_advised", "code"), ("rollback_not_started", "chat")]
    (advised,) = receiver.named("rollback_advised")
    assert advised["headline"] == advised["reasons"][0]["sentence"] == "cooling down"


def test_a_stored_run_wakes_the_decision() -> None:
    from airflow.dag_processing.dagbag import DagBag

    from tests.dags.conftest import ROOT

    dags = {n: DagBag(ROOT / f"dags/{n}.py").dags[n] for n in ("golden_hourly", "score_logs")}
    for dag in dags.values():
        assert [a.name for a in dag.get_task("publish").outlets] == ["llm/evidence"]
    decide = DagBag(ROOT / "dags/decide_rollback.py").dags["decide_rollback"]
    assert [asset.name for asset in decide.timetable.asset_condition.objects] == ["llm/evidence"]


@pytest.mark.parametrize("incident", ["chat-abc-0", "chat_v2-abc-0", "chat v2/ä-abc-0"])
def test_a_run_id_is_the_same_every_time_and_airflow_takes_it(incident: str) -> None:
    import re

    assert run_id(incident) == run_id(incident)
    assert re.fullmatch(r"rollback__[A-Za-z0-9_.~:+-]+", run_id(incident))
    assert run_id(incident) != run_id(incident + "1")


def progress(phase: incident_state.Phase) -> Progress:
    return Progress("chat-abc-0", "/incidents/chat/chat-abc-0", RUN, phase, START.isoformat())


def reconciled(*steps: dict[str, Any], code: int = 0, stderr: str = "") -> dict[str, Any]:
    """Return an answer of ``rollback reconcile`` as the library gives it."""
    results = [stepped("x")["json"] | step for step in steps]
    return {"code": code, "json": {"reconciled": results}, "stderr": stderr or "working"}


RETIRED = {"step": "retire", "headline": "old ended"}
REPORTED = {"step": "report", "headline": "closed", "url": "http://m/post-mortem"}
BACK = {"step": "abort", "state": "aborted", "headline": "the starting weights are back"}
BUSY = {"step": "recover", "state": "busy", "done": False, "headline": "another process works"}
BAD = {"step": "recover", "state": "bad", "done": False, "headline": "answers are bad"}
OTHER = {"incident_id": "chat-old-0", **RETIRED}


@pytest.mark.parametrize(
    ("phase", "going_on", "answer", "after", "told"),
    [
        ("moving", (RUN,), None, "moving", None),
        ("aborted", (), None, "aborted", None),
        ("done", (), None, "done", None),
        ("moving", (), reconciled(BACK), "aborted", Event.ROLLBACK_ABORTED),
        ("moved", (), reconciled(RETIRED, REPORTED), "done", Event.ROLLBACK_DONE),
        # The mirror lags behind the journal when the driver dies between the two.
        ("moving", (), reconciled(RETIRED, REPORTED), "done", Event.ROLLBACK_DONE),
        ("moved", (), reconciled(BACK), "aborted", Event.ROLLBACK_ABORTED),
        ("moved", (), reconciled(BUSY), "moved", None),
        # It was ended from a terminal; nobody can say how, so the mirror's own phase does.
        ("moved", (), reconciled(OTHER), "done", None),
        ("moving", (), reconciled(), "aborted", None),
    ],
)
def test_what_a_dead_run_has_begun_is_ended_once(
    library: Library,
    phase: incident_state.Phase,
    going_on: tuple[str, ...],
    answer: dict[str, Any] | None,
    after: str,
    told: Event | None,
) -> None:
    if answer is not None:
        library.answer({"rollback reconcile": [answer]})
    seen = context(Ti(going_on=going_on))
    store = seen["asset_state_store"][ROLLBACK]
    incident_state.remember(store, "chat", progress(phase))
    task = TakeBack(task_id="t", service="chat")
    task.execute(seen)
    calls = library.calls("rollback reconcile", "chat")
    assert len(calls) == (answer is not None)
    if calls:
        assert calls[0]["arguments"][4:6] == ["--older-than-minutes", "0"]
    kept = incident_state.recall(store, "chat")
    assert kept is not None
    assert kept.phase == after
    assert _true_event(Event.WENT_BACK, {"task": task}) is told
    if told is Event.ROLLBACK_DONE:
        assert task.report_url == task.alert_links["post_mortem"] == "http://m/post-mortem"


def test_how_it_ended_elsewhere_is_asked(library: Library) -> None:
    known = {"service": "chat", "incident_id": "chat-abc-0", "state": "done"}
    library.answer({"rollback status": [{"json": known}]})
    seen = context()
    store = seen["asset_state_store"][ROLLBACK]
    incident_state.remember(store, "chat", progress("moving"))
    TakeBack(task_id="t", service="chat").execute(seen)
    kept = incident_state.recall(store, "chat")
    assert kept is not None and kept.phase == "done"


@pytest.mark.parametrize(
    ("phase", "answer", "error", "told"),
    [
        # Users are served by the target: it waits without an alarm.
        ("moved", "outside", AirflowSkipException, Event.ROLLBACK_UNFINISHED),
        # They are not: it is tried again at once, then red.
        ("moving", "outside", OutsideFailed, Event.ABORT_FAILED),
        ("moved", "bad", AirflowFailException, Event.ROLLBACK_STEP_FAILED),
    ],
)
def test_what_cannot_be_ended_now_stays_open(
    library: Library,
    phase: incident_state.Phase,
    answer: str,
    error: type[Exception],
    told: Event,
) -> None:
    outside = {"step": "report", "state": "outside", "done": False, "headline": "MLflow is away"}
    library.answer({
        "rollback reconcile": [
            reconciled(BAD)
            if answer == "bad"
            else reconciled(outside, code=3, stderr="error: chat-abc-0: MLflow is away")
        ]
    })
    seen = context()
    store = seen["asset_state_store"][ROLLBACK]
    incident_state.remember(store, "chat", progress(phase))
    task = TakeBack(task_id="t", service="chat")
    with pytest.raises(error, match=r"MLflow is away|answers are bad"):
        task.execute(seen)
    kept = incident_state.recall(store, "chat")
    assert kept is not None and kept.phase == phase
    raised = Event.ROLLBACK_UNFINISHED if error is AirflowSkipException else Event.ABORT_FAILED
    assert _true_event(raised, {"task": task}) is told


def test_a_rollback_from_a_terminal_that_nobody_goes_on_with_is_told_too(library: Library) -> None:
    (library.home / "runs/incidents").mkdir(parents=True)
    library.answer({"rollback reconcile": [reconciled(RETIRED, REPORTED)]})
    task = TakeBack(task_id="t", service="chat")
    assert task.execute(context()) == "chat-abc-0: closed"
    assert _true_event(Event.WENT_BACK, {"task": task}) is Event.ROLLBACK_DONE


def test_old_instances_are_ended_where_there_ever_was_an_incident(library: Library) -> None:
    TakeBack(task_id="t", service="chat").execute(context())
    assert library.calls("rollback") == []
    (library.home / "runs/incidents").mkdir(parents=True)
    TakeBack(task_id="t", service="chat").execute(context())
    (call,) = library.calls("rollback reconcile", "chat")
    assert "--older-than-minutes" not in call["arguments"], "another's rollback may go on"


@pytest.mark.parametrize(("minutes", "is_stale"), [(None, False), (149, False), (151, True)])
def test_data_is_stale_when_no_golden_run_was_stored_for_too_long(
    library: Library, minutes: int | None, is_stale: bool
) -> None:
    seen = context()
    if minutes is not None:
        then = datetime.now(UTC) - timedelta(minutes=minutes)
        freshness.seen(seen["asset_state_store"][HEALTH], "chat", then)
    task = IsFresh(task_id="t", service="chat")
    if is_stale:
        with pytest.raises(AirflowSkipException, match="150 are allowed"):
            task.execute(seen)
    else:
        task.execute(seen)
    assert task.run["service"] == "chat"


def test_a_new_service_is_stale_only_after_it_was_watched_for_so_long() -> None:
    store = context()["asset_state_store"][HEALTH]
    assert freshness.age(store, "new", START) == timedelta(0)
    assert freshness.age(store, "new", START + timedelta(hours=3)) == timedelta(hours=3)


def test_the_abort_button_goes_back_and_closes_what_airflow_remembers(library: Library) -> None:
    seen = context(service="chat", reason="wrong target")
    store = seen["asset_state_store"][ROLLBACK]
    incident_state.remember(store, "chat", progress("moving"))
    task = PressAbort(task_id="t")
    task.execute(seen)
    asked = library.calls("rollback abort", "chat")[0]["arguments"]
    assert asked[asked.index("--reason") + 1] == "wrong target"
    kept = incident_state.recall(store, "chat")
    assert kept is not None
    assert (kept.phase, kept.step) == ("aborted", "abort")
    assert task.run["went_back"]


@pytest.mark.parametrize(
    "answer",
    [
        stepped("abort", 1, "nobody who could serve is alive"),
        {"code": 2, "stderr": "error: no rollback of 'chat' is in progress"},
    ],
    ids=["no way back", "nothing to abort"],
)
def test_an_abort_that_did_not_go_back_is_red_and_says_why(
    library: Library, answer: dict[str, object]
) -> None:
    library.answer({"rollback abort": [answer]})
    seen = context(service="chat", reason="why")
    incident_state.remember(seen["asset_state_store"][ROLLBACK], "chat", progress("moving"))
    with pytest.raises(AirflowFailException, match=r"alive|in progress"):
        PressAbort(task_id="t").execute(seen)
    kept = incident_state.recall(seen["asset_state_store"][ROLLBACK], "chat")
    assert kept is not None
    assert kept.phase == "moving"
