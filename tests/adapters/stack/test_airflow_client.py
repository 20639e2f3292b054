"""The Airflow client against a stand-in server; the real one is in test_local_stack.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from quality_lib.adapters.stack.airflow_client import AirflowClient
from quality_lib.errors import OutsideFailure

RUN = "manual__2026-01-01T00:00:00+00:00"


class StandIn:
    """Answers by path; hands out tokens ``t1``, ``t2``, … and accepts the last one only."""

    def __init__(self, answers: dict[str, Callable[[httpx.Request], httpx.Response]]) -> None:
        self.answers = answers
        self.tokens = 0
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            login = json.loads(request.content)
            if login != {"username": "admin", "password": "right"}:
                return httpx.Response(401, json={"detail": "Invalid credentials"})
            self.tokens += 1
            return httpx.Response(201, json={"access_token": f"t{self.tokens}"})
        if request.headers["authorization"] != f"Bearer t{self.tokens}":
            return httpx.Response(401, json={"detail": "expired"})
        path = request.url.raw_path.decode().partition("?")[0].removeprefix("/api/v2")
        self.asked.append(f"{request.method} {path}")
        if path not in self.answers:
            return httpx.Response(404, json={"detail": "not found"})
        return self.answers[path](request)


def client(stand_in: StandIn, password: str = "right") -> AirflowClient:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    transport = httpx.MockTransport(stand_in)
    return AirflowClient(
        "http://x/", "admin", password, transport=transport, clock=lambda: now[0], sleep=sleep
    )


def says(*answers: Any) -> Callable[[httpx.Request], httpx.Response]:
    """Give the answers one after the other, the last one again and again."""
    left = list(answers)
    return lambda _: httpx.Response(200, json=left.pop(0) if len(left) > 1 else left[0])


def test_an_expired_token_is_renewed_once() -> None:
    stand_in = StandIn({"/importErrors": says({"import_errors": []})})
    airflow = client(stand_in)
    airflow.import_errors()
    stand_in.tokens += 1  # as if the server had forgotten the first
    assert airflow.import_errors() == ()
    assert stand_in.tokens == 3


def test_a_wrong_password_is_told() -> None:
    with pytest.raises(OutsideFailure, match=r"refuses the login of 'admin' \(401\): Invalid"):
        client(StandIn({}), "wrong").import_errors()


def test_waiting_reports_every_move_and_returns_the_final_state() -> None:
    path = f"/dags/d/dagRuns/{RUN.replace(':', '%3A').replace('+', '%2B')}"
    task = {"task_id": "t", "map_index": -1, "try_number": 1}
    stand_in = StandIn({
        path: says({"state": "queued"}, {"state": "running"}, {"state": "failed"}),
        f"{path}/taskInstances": says(
            {"task_instances": [{**task, "state": None}]},
            {"task_instances": [{**task, "state": "running"}]},
            {"task_instances": [{**task, "state": "failed"}]},
        ),
    })
    moves: list[str | None] = []
    state = client(stand_in).wait("d", RUN, 10.0, lambda tasks: moves.append(tasks[0].state))
    assert state == "failed"
    assert moves == [None, "running", "failed"]


def test_waiting_ends_with_the_page_to_look_at() -> None:
    stand_in = StandIn({
        "/dags/d/dagRuns/r": says({"state": "running"}),
        "/dags/d/dagRuns/r/taskInstances": says({"task_instances": []}),
    })
    with pytest.raises(OutsideFailure, match="still running after 5 s, see http://x/dags/d/runs/r"):
        client(stand_in).wait("d", "r", 5.0)


def test_a_dag_whose_file_is_broken_fails_at_once() -> None:
    broken = {"filename": "golden_hourly.py", "stack_trace": "Traceback …\nNameError: x\n"}
    stand_in = StandIn({"/importErrors": says({"import_errors": [broken]})})
    with pytest.raises(OutsideFailure, match=r"cannot load golden_hourly\.py: NameError: x"):
        client(stand_in).wait_for_dag("golden_hourly")


def test_a_result_that_is_not_there_is_none() -> None:
    assert client(StandIn({})).result("d", "r", "t") is None


def test_a_dead_server_is_an_outside_failure() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    airflow = AirflowClient("http://x", "a", "b", transport=httpx.MockTransport(refuse))
    with pytest.raises(OutsideFailure, match="http://x does not answer"):
        airflow.import_errors()
    with pytest.raises(OutsideFailure, match="http://x does not answer"):
        airflow.heartbeats()
