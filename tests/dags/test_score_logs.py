"""``score_logs`` and ``score_logs_deep`` run by Airflow itself; only the commands are stood in for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.dags.conftest import Library, Receiver, merged, planned
from tests.dags.run_dag import run_dag

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("nothing_told")]
WATERMARK = {"complete_to": "2026-03-01T00:10:00+00:00", "seen": ["ab"], "seen_rate": 1.0}


def watermarks() -> dict[str, Any]:
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = session.scalars(select(AssetStateStoreModel)).all()
        return {
            row.key: json.loads(row.value)
            for row in found
            if row.key.startswith(("quick:", "deep:"))
        }


def test_every_partition_is_scored_and_every_service_merged_stored_and_judged(
    library: Library, receiver: Receiver
) -> None:
    ended = run_dag("score_logs")
    assert ended.state == "success"
    assert ended.tasks == {
        (task, service): "success"
        for task, services in {
            "list_services": [""],
            "plan_window": ["chat", "code"],
            "planned": [""],
            "list_partitions": [""],
            "score": ["chat 1/2", "chat 2/2", "code 1/1"],
            "merge": ["chat", "code"],
            "publish": ["chat", "code"],
            "judge": ["chat", "code"],
            "recorded": ["0", "1"],
        }.items()
        for service in services
    }
    assert receiver.events == []
    assert watermarks() == {"quick:chat": WATERMARK, "quick:code": WATERMARK}
    for call in library.calls("logs score", "chat"):
        assert call["arguments"][call["arguments"].index("--out") + 1] == "/runs/chat/w"


def test_a_service_that_is_not_due_is_skipped_and_the_other_scored(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"logs partitions chat": [planned("chat")]})
    ended = run_dag("score_logs")
    assert ended.state == "success"
    assert ended.tasks["plan_window", "chat"] == "skipped"
    assert ended.tasks["judge", "code"] == "success"
    assert {call["service"] for call in library.calls("logs score")} == {"code"}
    assert receiver.events == []


def test_when_nothing_is_due_nothing_is_done_and_nobody_told(
    library: Library, receiver: Receiver
) -> None:
    library.answer({f"logs partitions {name}": [planned(name)] for name in ("chat", "code")})
    ended = run_dag("score_logs")
    assert ended.state == "success"
    assert not library.calls("logs score")
    assert not library.calls("logs merge")
    assert receiver.events == []


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [("degraded", "warning"), ("failed", "critical"), ("changed", "critical")],
)
def test_low_quality_is_a_red_judge_an_alert_and_a_scored_window(
    library: Library, receiver: Receiver, verdict: str, severity: str
) -> None:
    library.answer({"logs merge chat": [merged(verdict, "chat gives nonsense")]})
    ended = run_dag("score_logs")
    assert ended.state == "failed"
    assert ended.tasks["merge", "chat"] == "success"
    assert ended.tasks["judge", "chat"] == "failed"
    assert ended.tasks["judge", "code"] == "success"  # the other lane is not stopped
    (event,) = receiver.events
    assert (event["name"], event["service"], event["severity"]) == ("low_quality", "chat", severity)
    assert event["headline"] == "chat gives nonsense"
    assert event["worst_cases"] == ["req-1"]
    assert event["links"]["report"] == "http://m/report"
    assert watermarks()["quick:chat"] == WATERMARK


def test_no_data_is_a_skipped_judge_never_a_pass_and_the_window_is_read_again(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"logs merge chat": [merged("inconclusive", "too many bad lines")]})
    ended = run_dag("score_logs", service="chat")
    assert ended.tasks["judge", "chat"] == "skipped"
    (event,) = receiver.events
    assert (event["name"], event["headline"]) == ("no_data", "too many bad lines")
    assert watermarks() == {}


def test_a_window_that_only_waits_for_more_answers_tells_nobody(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"logs merge chat": [merged("inconclusive", "only 12 answers", waits=True)]})
    ended = run_dag("score_logs", service="chat")
    assert ended.tasks["judge", "chat"] == "skipped"
    assert receiver.events == []
    assert watermarks() == {}


def test_the_watermark_of_one_run_reaches_the_next(library: Library, receiver: Receiver) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    run_dag("score_logs", start, service="chat")
    run_dag("score_logs", start + timedelta(minutes=10), service="chat")
    first, second = (call["arguments"] for call in library.calls("logs partitions", "chat"))
    assert "--watermark" not in first
    assert json.loads(second[second.index("--watermark") + 1]) == WATERMARK


def test_an_old_run_that_is_done_again_moves_the_watermark_not_back(
    library: Library, receiver: Receiver
) -> None:
    older = {**WATERMARK, "complete_to": "2026-02-28T23:50:00+00:00"}
    library.answer({"logs merge chat": [merged("good"), merged("good", watermark=older)]})
    run_dag("score_logs", datetime(2026, 3, 1, tzinfo=UTC), service="chat")
    run_dag("score_logs", datetime(2026, 3, 2, tzinfo=UTC), service="chat")
    assert watermarks() == {"quick:chat": WATERMARK}


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 3, "stderr": "error: connection refused"},
        {"code": 1, "stderr": "Traceback: a defect"},
        {"code": -9},
    ],
    ids=["outside", "crash", "killed"],
)
def test_a_crashed_partition_is_a_broken_checker_and_no_verdict(
    library: Library, receiver: Receiver, answer: dict[str, object]
) -> None:
    library.answer({
        "logs score chat": [answer],
        "logs merge chat": [{"code": 3, "stderr": "error: partition 1 of 2 was not scored"}],
    })
    ended = run_dag("score_logs")
    assert ended.state == "failed"
    assert ended.tries["score", "chat 1/2"] == 2
    assert ended.tasks["merge", "chat"] == "failed"
    assert ended.tasks["judge", "chat"] == "skipped"
    assert ended.tasks["judge", "code"] == "success"
    assert [event["name"] for event in receiver.events] == ["checker_broken"]
    assert "quick:chat" not in watermarks()


def test_a_log_that_cannot_be_planned_fails_its_own_service_only(
    library: Library, receiver: Receiver
) -> None:
    library.answer({"logs partitions chat": [{"code": 2, "stderr": "error: no log to score"}]})
    ended = run_dag("score_logs")
    assert ended.state == "failed"
    assert ended.tasks["plan_window", "chat"] == "failed"
    assert ended.tasks["judge", "code"] == "success"
    (event,) = receiver.events
    assert (event["name"], event["service"]) == ("checker_broken", "chat")


def test_a_score_that_cannot_be_stored_is_judged_all_the_same(
    library: Library, receiver: Receiver
) -> None:
    library.answer({
        "logs merge chat": [merged("degraded")],
        "logs publish chat": [{"code": 3, "stderr": "error: MLflow is away"}],
    })
    ended = run_dag("score_logs", service="chat")
    assert ended.tasks["publish", "chat"] == "failed"
    assert ended.tasks["judge", "chat"] == "failed"
    assert [event["name"] for event in receiver.events] == ["not_recorded", "low_quality"]


def test_a_good_score_is_no_recovery_of_a_bad_golden_run(
    library: Library, receiver: Receiver
) -> None:
    from tests.dags.conftest import checked

    library.answer({"golden check chat": [checked("failed")]})
    run_dag("golden_hourly", service="chat")
    run_dag("score_logs", service="chat")
    assert [event["name"] for event in receiver.events] == ["quality_bad"]


def test_trouble_is_told_once_and_its_end_too(library: Library, receiver: Receiver) -> None:
    bad, good = merged("degraded", "worse"), merged("good", "fine")
    library.answer({"logs merge chat": [bad, bad, good, good]})
    start = datetime(2026, 3, 1, tzinfo=UTC)
    told = []
    for number in range(4):
        receiver.events.clear()
        run_dag("score_logs", start + timedelta(minutes=10 * number), service="chat")
        told.append([event["name"] for event in receiver.events])
    assert told == [["low_quality"], [], ["recovered"], []]


def test_the_deep_pass_has_its_own_watermark_and_the_gpu_pool(
    library: Library, receiver: Receiver
) -> None:
    from airflow.models.pool import Pool

    Pool.create_or_update_pool("gpu", slots=1, description="", include_deferred=False)
    ended = run_dag("score_logs_deep", service="chat")
    assert ended.state == "success"
    assert "--deep" in library.calls("logs partitions", "chat")[0]["arguments"]
    assert watermarks() == {"deep:chat": WATERMARK}


def test_texts_of_users_stay_out_of_airflow(library: Library, receiver: Receiver) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    ended = run_dag("score_logs", service="chat")
    with create_session() as session:
        values = session.scalars(
            select(XComModel.value).where(XComModel.run_id == ended.run_id)
        ).all()
    stored = [json.dumps(value) for value in values]
    assert max(map(len, stored)) < 2000
    assert not any("seen" in value for value in stored)  # the watermark is no XCom
