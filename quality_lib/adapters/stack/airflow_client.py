"""Airflow's REST API, as far as the demo and the stack need it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import httpx

from quality_lib.errors import OutsideFailure

FINAL_STATES = frozenset({"success", "failed"})
POLL_S = 1.0


@dataclass(frozen=True)
class TaskState:
    """Where one task of a run stands."""

    task_id: str
    map_index: int
    """-1 for a task that is not mapped."""
    state: str | None
    """Airflow's word; ``None`` before the scheduler has seen it."""
    try_number: int

    @property
    def name(self) -> str:
        """The task, with its number where it is not the only or first one of its kind."""
        return f"{self.task_id}[{self.map_index}]" if self.map_index > 0 else self.task_id


@dataclass(frozen=True)
class ImportProblem:
    """A DAG file that Airflow cannot load."""

    file: str
    trace: str


class AirflowClient:
    """One Airflow, as one user; a token is fetched when needed and renewed when refused."""

    def __init__(
        self,
        base_url: str,
        user: str,
        password: str,
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = base_url.rstrip("/")
        self._login = {"username": user, "password": password}
        self._token: str | None = None
        self._clock = clock
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self._url,
            timeout=30.0,
            transport=transport,
            # No connection stays open between two calls, so a forgotten client holds none.
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,  # a proxy has no business between us and our own server
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def heartbeats(self) -> Mapping[str, datetime]:
        """Return the last sign of life of each healthy component; needs no login."""
        try:
            answer = self._http.get("/api/v2/monitor/health")
            answer.raise_for_status()
            data = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise OutsideFailure(f"Airflow at {self._url} does not answer: {error!r}") from error
        found = {}
        for name, state in data.items():
            told = (state or {}).get(f"latest_{name}_heartbeat")
            if told and state.get("status") == "healthy":
                found[name] = datetime.fromisoformat(told)
        return found

    def wait_for_dag(self, dag_id: str, timeout_s: float = 120.0) -> None:
        """Return when Airflow knows the DAG; fail at once when its file cannot be loaded."""
        deadline = self._clock() + timeout_s
        while self._send("GET", f"/dags/{dag_id}", missing_ok=True) is None:
            for problem in self.import_errors():
                if dag_id in problem.file:
                    last = problem.trace.strip().splitlines()[-1]
                    raise OutsideFailure(f"Airflow cannot load {problem.file}: {last}")
            if self._clock() >= deadline:
                raise OutsideFailure(f"Airflow has no DAG '{dag_id}' after {timeout_s:.0f} s")
            self._sleep(POLL_S)

    def import_errors(self) -> tuple[ImportProblem, ...]:
        """Return the DAG files that cannot be loaded."""
        data = self._send("GET", "/importErrors")
        return tuple(ImportProblem(e["filename"], e["stack_trace"]) for e in data["import_errors"])

    def unpause(self, dag_id: str) -> None:
        """Let the DAG run."""
        self._pause(dag_id, False)

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run and return its id. A paused DAG's run waits until it is unpaused."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._send("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return ``queued``, ``running``, ``success`` or ``failed``."""
        return str(self._send("GET", f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}")["state"])

    def wait(
        self,
        dag_id: str,
        run_id: str,
        timeout_s: float,
        progress: Callable[[tuple[TaskState, ...]], None] = lambda _: None,
    ) -> str:
        """Return the final state of a run, ``success`` or ``failed``.

        ``progress`` gets the tasks whenever one of them has moved.
        """
        deadline = self._clock() + timeout_s
        seen: tuple[TaskState, ...] = ()
        while True:
            state = self.run_state(dag_id, run_id)
            tasks = self.task_states(dag_id, run_id)
            if tasks != seen:
                progress(tasks)
                seen = tasks
            if state in FINAL_STATES:
                return state
            if self._clock() >= deadline:
                raise OutsideFailure(
                    f"the run {run_id} of {dag_id} is still {state} after {timeout_s:.0f} s, "
                    f"see {self.run_url(dag_id, run_id)}"
                )
            self._sleep(POLL_S)

    def task_states(self, dag_id: str, run_id: str) -> tuple[TaskState, ...]:
        """Return every task of a run."""
        path = f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances"
        found = self._send("GET", path, params={"limit": 1000})["task_instances"]
        return tuple(
            TaskState(t["task_id"], t["map_index"], t["state"], t["try_number"]) for t in found
        )

    def task_log(self, dag_id: str, run_id: str, task: TaskState) -> str:
        """Return what the task's last try has logged, one line per event."""
        path = (
            f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task.task_id}"
            f"/logs/{max(task.try_number, 1)}"
        )
        params = {"map_index": task.map_index, "full_content": True}
        content = self._send("GET", path, params=params)["content"]
        return "\n".join(_log_line(event) for event in content)

    def result(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        """Return what a task has returned; ``None`` when it has returned nothing."""
        path = (
            f"/dags/{dag_id}/dagRuns/{_quoted(run_id)}/taskInstances/{task_id}"
            "/xcomEntries/return_value"
        )
        params = {"map_index": map_index, "deserialize": False, "stringify": False}
        found = self._send("GET", path, params=params, missing_ok=True)
        return None if found is None else found["value"]

    def ensure_pool(self, name: str, slots: int, description: str) -> None:
        """Make the pool, or give it this many slots."""
        body = {"name": name, "slots": slots, "description": description}
        if self._send("GET", f"/pools/{name}", missing_ok=True) is None:
            self._send("POST", "/pools", json=body)
        else:
            self._send("PATCH", f"/pools/{name}", json={**body, "include_deferred": False})

    def run_url(self, dag_id: str, run_id: str) -> str:
        """Return the page of a run, for a browser."""
        return f"{self._url}/dags/{dag_id}/runs/{_quoted(run_id)}"

    def _pause(self, dag_id: str, paused: bool) -> None:
        params = {"update_mask": "is_paused"}
        self._send("PATCH", f"/dags/{dag_id}", params=params, json={"is_paused": paused})

    def _send(self, method: str, path: str, *, missing_ok: bool = False, **request: Any) -> Any:
        answer = self._once(method, path, **request)
        if answer.status_code == 401:  # the token has expired
            self._token = None
            answer = self._once(method, path, **request)
        if answer.status_code == 404 and missing_ok:
            return None
        if answer.is_error:
            raise OutsideFailure(
                f"Airflow at {self._url} refused {method} {path} "
                f"({answer.status_code}): {_detail(answer)}"
            )
        return answer.json() if answer.content else None

    def _once(self, method: str, path: str, **request: Any) -> httpx.Response:
        try:
            if self._token is None:
                login = self._http.post("/auth/token", json=self._login)
                if login.is_error:
                    raise OutsideFailure(
                        f"Airflow at {self._url} refuses the login of "
                        f"'{self._login['username']}' ({login.status_code}): {_detail(login)}"
                    )
                self._token = str(login.json()["access_token"])
            headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            return self._http.request(method, f"/api/v2{path}", headers=headers, **request)
        except httpx.HTTPError as error:
            raise OutsideFailure(f"Airflow at {self._url} does not answer: {error!r}") from error


def _quoted(run_id: str) -> str:
    # Run ids hold colons and plus signs (manual__2026-01-01T00:00:00+00:00).
    return str(httpx.URL("http://x", params={"v": run_id}).query, "ascii").removeprefix("v=")


def _detail(answer: httpx.Response) -> str:
    with suppress(ValueError, AttributeError):
        return str(answer.json()["detail"])[:300]
    return answer.text[:300]


def _log_line(event: Any) -> str:
    if not isinstance(event, dict):
        return str(event)
    line = f"{event.get('level', 'info').upper():8}{event.get('event', '')}"
    for problem in event.get("error_detail") or ():
        line += f" | {problem.get('exc_type')}: {problem.get('exc_value')}"
    return line
