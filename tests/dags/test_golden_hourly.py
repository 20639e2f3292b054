"""``golden_hourly`` run by Airflow itself; only the library's commands are stood in for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.dags.conftest import Library, Receiver, alive, checked
from tests.dags.run_dag import run_dag

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("nothing_told")]


def test_every_service_is_checked_stored_and_judged(library: Library, receiver: Receiver) -> None:
    ended = run_dag("golden_hourly")
    assert ended.state == "success"
    assert ended.tasks == {
        (task, service): "success"
        for task, services in {
            "list_services": [""],
            "run_golden": ["chat", "code"],
            "publish": ["chat", "code"],
            "judge": ["chat", "code"],
            "recorded": ["0", "1"],
        }.items()
        for service in services
    }
    assert receiver.events == []
    check = library.calls("golden check", "chat")[0]["arguments"]
    assert check[check.index("--config") + 1] == str(library.config)


def test_the_form_chooses_one_service(library: Library, receiver: Receiver) -> None:
    ended = run_dag("golden_hourly", service="code")
    assert ended.state == "success"
    assert {call["service"] for call in library.calls("golden check")} == {"code"}


def test_an_unknown_service_fails_at_once_and_names_the_known_ones(
    library: Library, receiver: Receiver
) -> None:
    ended = run_dag("golden_hourly", service="chta")
    assert ended.state == "failed"
    assert ended.tasks["list_services", ""] == "failed"
    (event,) = receiver.named("checker_broken")
    assert "use one of: chat, code" in event["headline"]


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [("degraded", "warning"), ("failed", "critical"), ("changed", "critical")],
)
def test_bad_quality_is_a_red_judge_and_an_alert(
    library: Library, receiver: Receiver, verdict: str, severity: str
) -> None:
    library.answer({"golden check chat": [checked(verdict, "chat says nonsense")]})
    ended = run_dag("golden_hourly")
    assert ended.state == "failed"
    assert ended.tasks["run_golden", "chat"] == "success"
    assert ended.tasks["judge", "chat"] == "failed"
    assert ended.tasks["judge", "code"] == "success"  # the other lane is not stopped
    assert ended.tries["judge", "chat"] == 1
    (event,) = receiver.events
    assert (event["name"], event["service"], event["severity"]) == ("quality_bad", "chat", severity)
    assert event["headline"] == "chat says nonsense"
    assert event["reasons"][0]["code"] == "similarity_low"
    assert event["worst_cases"] == ["fact-01", "json-07"]
    assert event["links"]["report"] == "http://m/report"
    assert "/dags/golden_hourly/runs/" in event["links"]["airflow"]


def test_no_data_is_a_skipped_judge_never_a_pass(library: Library, receiver: Receiver) -> None:
    library.answer({"golden check chat": [checked("inconclusive", "too few answers")]})
    ended = run_dag("golden_hourly")
    assert ended.tasks["run_golden", "chat"] == ended.tasks["publish", "chat"] == "success"
    assert ended.tasks["judge", "chat"] == "skipped"
    (event,) = receiver.events
    assert (event["name"], event["headline"]) == ("no_data", "too few answers")


def test_without_a_snapshot_there_is_nothing_to_store_and_nothing_to_judge(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"golden check chat": [{"code": 4, "stderr": "error: no snapshot of chat yet"}]})
    ended = run_dag("golden_hourly", service="chat")
    assert ended.tasks["publish", "chat"] == "success"
    assert ended.tasks["judge", "chat"] == "skipped"
    assert not library.calls("golden publish")
    assert receiver.named("no_data")[0]["headline"] == "no snapshot of chat yet"


def test_bad_input_is_not_retried(library: Library, receiver: Receiver) -> None:
    library.answer({"golden check chat": [{"code": 2, "stderr": "error: cases.jsonl:7: no id"}]})
    ended = run_dag("golden_hourly")
    assert ended.state == "failed"
    assert ended.tasks["run_golden", "chat"] == "failed"
    assert ended.tasks["judge", "chat"] == "skipped"
    assert ended.tasks["judge", "code"] == "success"
    assert len(library.calls("golden check", "chat")) == 1
    (event,) = receiver.events
    assert event["name"] == "checker_broken"
    assert "cases.jsonl:7: no id" in event["headline"]


def test_an_outside_failure_is_retried_in_the_same_folder(
    library: Library, receiver: Receiver
) -> None:
    refused = {"code": 3, "stderr": "error: connection refused"}
    library.answer({"golden check chat": [refused, checked("good")]})
    ended = run_dag("golden_hourly", service="chat")
    assert ended.state == "success"
    assert ended.tries["run_golden", "chat"] == 2
    first, second = library.calls("golden check", "chat")
    assert first["arguments"] == second["arguments"]  # --out included: the second try resumes
    assert receiver.events == []


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 3, "stderr": "error: connection refused"},
        {"code": 1, "stderr": "Traceback: a defect"},
        {"code": 0},
    ],
    ids=["outside", "crash", "no result"],
)
def test_a_broken_checker_never_looks_like_bad_quality(
    library: Library, receiver: Receiver, answer: dict[str, object]
) -> None:
    library.answer({"golden check chat": [answer]})
    ended = run_dag("golden_hourly", service="chat")
    assert ended.state == "failed"
    assert ended.tasks["run_golden", "chat"] == "failed"
    assert ended.tries["run_golden", "chat"] == 3
    assert ended.tasks["judge", "chat"] == "skipped"
    assert [event["name"] for event in receiver.events] == ["checker_broken"]


def test_a_run_that_cannot_be_stored_is_judged_all_the_same(
    library: Library, receiver: Receiver
) -> None:
    library.answer({
        "golden check chat": [checked("degraded")],
        "golden publish chat": [{"code": 3, "stderr": "error: MLflow is away"}],
    })
    ended = run_dag("golden_hourly", service="chat")
    assert ended.tasks["publish", "chat"] == "failed"
    assert ended.tries["publish", "chat"] == 4
    assert ended.tasks["judge", "chat"] == "failed"
    assert [event["name"] for event in receiver.events] == ["not_recorded", "quality_bad"]


def test_trouble_is_told_once_then_again_after_hours_and_when_it_is_over(
    library: Library, receiver: Receiver
) -> None:
    bad, good = checked("degraded", "worse"), checked("good", "fine")
    library.answer({"golden check chat": [bad, bad, checked("failed"), good, good]})
    start = datetime(2026, 3, 1, tzinfo=UTC)
    told = []
    for hour in range(5):
        receiver.events.clear()
        run_dag("golden_hourly", start + timedelta(hours=hour), service="chat")
        told.append([event["name"] for event in receiver.events])
    assert told == [["quality_bad"], [], ["quality_bad"], ["recovered"], []]


def test_an_alert_that_did_not_arrive_fails_nothing_and_is_told_again(
    library: Library, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    library.answer({"golden check chat": [checked("degraded")]})
    receiver.status = 500
    start = datetime(2026, 3, 2, tzinfo=UTC)
    ended = run_dag("golden_hourly", start, service="chat")
    assert ended.tasks["judge", "chat"] == "failed"
    receiver.status = 200
    run_dag("golden_hourly", start + timedelta(hours=1), service="chat")
    run_dag("golden_hourly", start + timedelta(hours=2), service="chat")
    assert [event["name"] for event in receiver.events] == ["quality_bad"] * 2


def test_a_dead_receiver_leaks_neither_address_nor_password(
    library: Library, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_QUALITY_ALERTS", "http://pager:very-secret@127.0.0.1:9/very-secret-path"
    )
    library.answer({"golden check chat": [checked("degraded")]})
    ended = run_dag("golden_hourly", service="chat")
    assert ended.tasks["judge", "chat"] == "failed"
    output = "".join(capfd.readouterr())
    assert "alert not delivered" in output
    assert "very-secret" not in output


def test_each_result_is_an_asset_event_of_its_service(library: Library, receiver: Receiver) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    library.answer({"golden check chat": [checked("failed")]})
    ended = run_dag("golden_hourly", service="chat")
    with create_session() as session:
        extra = session.scalars(
            select(AssetEvent.extra)
            .join(AssetModel, AssetEvent.asset_id == AssetModel.id)
            .where(AssetModel.name == "llm/health/chat", AssetEvent.source_run_id == ended.run_id)
        ).all()
    assert [(e["verdict"], e["snapshot_id"]) for e in extra] == [("bad", "abc")]


def test_a_run_that_takes_too_long_is_ended_with_all_its_processes(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"golden check chat": [{"hang": True}]})
    ended = run_dag("golden_hourly", service="chat", _time_out=timedelta(seconds=8))
    assert ended.tasks["run_golden", "chat"] == "failed"
    pids = [int(pid) for pid in (library.home / "pids").read_text().split()]
    assert len(pids) == 2
    assert not [pid for pid in pids if alive(pid)]
