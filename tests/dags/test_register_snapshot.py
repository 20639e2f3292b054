"""``register_snapshot`` run by Airflow itself; only the library's commands are stood in for."""

from __future__ import annotations

import pytest

from tests.dags.conftest import Library, Receiver
from tests.dags.run_dag import run_dag

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("nothing_told")]


def test_an_eligible_service_gets_a_baseline_and_a_snapshot(
    library: Library, receiver: Receiver
) -> None:
    ended = run_dag("register_snapshot", service="chat")
    assert ended.state == "success"
    (create,) = library.calls("snapshot create")
    text = " ".join(create["arguments"])
    assert "--service chat --baseline /b --alias serving --by" in text
    (event,) = receiver.events
    assert (event["name"], event["service"]) == ("snapshot_registered", "chat")
    assert event["links"]["mlflow"] == "http://m/snapshot"


def test_a_service_that_is_not_eligible_is_skipped_and_the_other_registered(
    library: Library, receiver: Receiver
) -> None:
    no = {"eligible": False, "reason": "the server serves /good, configured is /bad"}
    library.answer({"snapshot eligible chat": [{"code": 4, "json": no}]})
    ended = run_dag("register_snapshot")
    assert ended.state == "success"
    assert ended.tasks["is_eligible", "chat"] == "skipped"
    assert ended.tasks["create_snapshot", "code"] == "success"
    assert {call["service"] for call in library.calls("golden baseline")} == {"code"}
    assert [event["service"] for event in receiver.events] == ["code"]


def test_force_asks_nobody_and_keeps_the_reason(library: Library, receiver: Receiver) -> None:
    library.answer({"snapshot eligible": [{"code": 3, "stderr": "error: must not be asked"}]})
    ended = run_dag("register_snapshot", service="chat", force=True, reason="first release")
    assert ended.state == "success"
    assert not library.calls("snapshot eligible")
    by = library.calls("snapshot create")[0]["arguments"]
    assert by[by.index("--by") + 1].endswith(": first release")


@pytest.mark.parametrize("verb", ["golden baseline", "snapshot create"])
def test_a_failure_is_red_and_told(library: Library, receiver: Receiver, verb: str) -> None:
    library.answer({f"{verb} chat": [{"code": 2, "stderr": "error: weights: no such folder"}]})
    ended = run_dag("register_snapshot", service="chat")
    assert ended.state == "failed"
    assert [event["name"] for event in receiver.events] == ["registration_failed"]
    assert "no such folder" in receiver.events[0]["headline"]


def test_nothing_to_make_a_baseline_of_is_no_snapshot(library: Library, receiver: Receiver) -> None:
    library.answer({"golden baseline chat": [{"code": 4, "stderr": "error: no answers"}]})
    ended = run_dag("register_snapshot", service="chat")
    assert ended.tasks["build_baseline", "chat"] == "failed"
    assert not library.calls("snapshot create")
