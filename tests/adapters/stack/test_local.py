"""The local stack with real S3, MLflow and Airflow processes, and what it refuses before that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import filelock
import httpx
import psutil
import pytest

from quality_lib.adapters.stack.local import LocalStack, PartState, StackAddresses
from quality_lib.errors import BadInput, OutsideFailure

REPOSITORY = Path(__file__).parents[3]
HELLO = """
import os
from airflow.sdk import dag, task

@dag(schedule=None, params={"name": "nobody"})
def hello():
    @task(pool="gpu")
    def greet(params):
        print("greeting", params["name"])
        return {"said": "hello " + params["name"], "config": os.environ["QUALITY_CONFIG"]}
    greet()

@dag(schedule=None)
def broken_task():
    @task
    def fail():
        raise ValueError("nothing to greet")
    fail()

hello()
broken_task()
"""


@dataclass
class Running:
    stack: LocalStack
    addresses: StackAddresses
    said: list[str]
    home: Path


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("dags", "plugins"):
        (folder / name).mkdir()
    (folder / "quality_lib").symlink_to(REPOSITORY / "quality_lib")
    (folder / "dags" / "hello.py").write_text(HELLO)
    (folder / "dags" / "unloadable.py").write_text(
        "from airflow.sdk import dag\nimport no_such_module\n"
    )
    return folder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Generator[Running]:
    home = tmp_path_factory.mktemp("home") / "with space 100%"
    stack = LocalStack(home, checkout)
    said: list[str] = []
    try:
        yield Running(stack, stack.up(progress=said.append), said, home)
    finally:
        stack.down(discard=True)
        assert [part for part in stack.status() if part.pids] == []
        shutil.rmtree(home)


def states(stack: LocalStack) -> set[PartState]:
    return {part.state for part in stack.status()}


@pytest.mark.stack
class TestRunning:
    """In this order: what a running stack offers, then crashes and restarts."""

    def test_every_part_runs_on_loopback_only(self, running: Running) -> None:
        assert states(running.stack) == {PartState.RUNNING}
        pids = {pid for part in running.stack.status() for pid in part.pids}
        listening = {
            connection.laddr.ip
            for connection in psutil.net_connections("inet")
            if connection.laddr
            and connection.pid in pids
            and connection.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}

    def test_secrets_are_closed_and_appear_nowhere_else(self, running: Running) -> None:
        password = running.addresses.airflow_password
        assert len(password) >= 12
        for name in ("password", "passwords.json", "airflow.cfg", "secrets/jwt"):
            file = running.addresses.airflow_home / name
            assert file.stat().st_mode & 0o777 == 0o600, name
        logs = "".join(part.log.read_text("utf-8", "replace") for part in running.stack.status())
        jwt = (running.addresses.airflow_home / "secrets" / "jwt").read_text().strip()
        assert password not in logs
        assert jwt not in logs

    def test_a_dag_runs_with_its_parameters_and_returns_its_result(self, running: Running) -> None:
        with running.stack.airflow() as airflow:
            airflow.wait_for_dag("hello", 120.0)
            airflow.unpause("hello")
            run = airflow.trigger("hello", {"name": "world"})
            assert airflow.wait("hello", run, 180.0) == "success"
            result = airflow.result("hello", run, "greet")
            assert result == {"said": "hello world", "config": str(running.stack.config)}
            (task,) = airflow.task_states("hello", run)
            assert (task.task_id, task.state, task.try_number) == ("greet", "success", 1)
            assert "greeting world" in airflow.task_log("hello", run, task)

    def test_a_failing_task_tells_why(self, running: Running) -> None:
        with running.stack.airflow() as airflow:
            airflow.unpause("broken_task")
            run = airflow.trigger("broken_task")
            assert airflow.wait("broken_task", run, 180.0) == "failed"
            (task,) = airflow.task_states("broken_task", run)
            assert "ValueError: nothing to greet" in airflow.task_log("broken_task", run, task)

    def test_a_file_that_cannot_be_loaded_is_told(self, running: Running) -> None:
        with running.stack.airflow() as airflow:
            with pytest.raises(OutsideFailure, match="No module named 'no_such_module'"):
                airflow.wait_for_dag("unloadable", 120.0)
            (problem,) = airflow.import_errors()
            assert problem.file.endswith("unloadable.py")

    @pytest.mark.parametrize(
        ("host", "status"), [("127.0.0.1", 200), ("localhost", 200), ("evil.example", 403)]
    )
    def test_mlflow_answers_to_its_own_names_only(
        self, running: Running, host: str, status: int
    ) -> None:
        assert running.addresses.mlflow
        port = httpx.URL(running.addresses.mlflow).port
        answer = httpx.get(
            f"{running.addresses.mlflow}/api/2.0/mlflow/experiments/get?experiment_id=0",
            headers={"Host": f"{host}:{port}"},
            trust_env=False,
        )
        assert answer.status_code == status

    def test_up_again_starts_nothing(self, running: Running) -> None:
        before = [part.pids[0] for part in running.stack.status()]
        said: list[str] = []
        assert running.stack.up(progress=said.append) == running.addresses
        assert [part.pids[0] for part in running.stack.status()] == before
        assert all("runs already" in line for line in said)
        assert len(said) == 6

    def test_artifacts_survive_down_and_up(self, running: Running) -> None:
        url = f"{running.addresses.mlflow}/api/2.0/mlflow-artifacts/artifacts/a/b.txt"
        assert httpx.put(url, content=b"kept", trust_env=False).status_code == 200
        running.stack.down()
        assert states(running.stack) == {PartState.STOPPED}
        said: list[str] = []
        assert running.stack.up(["mlflow"], progress=said.append).mlflow == running.addresses.mlflow
        assert "s3: 1 objects restored from the last `down`" in said
        assert httpx.get(url, trust_env=False).content == b"kept"

    def test_up_after_a_crash_cleans_up_and_says_what_was_lost(self, running: Running) -> None:
        for part in running.stack.status():
            if part.pids:  # the first process of each; its children are left
                os.kill(part.pids[0], signal.SIGKILL)
        time.sleep(0.5)
        assert PartState.RUNNING not in states(running.stack)
        said: list[str] = []
        running.stack.up(["mlflow"], progress=said.append)
        assert "s3: was killed, so what was stored since the last `down` is gone" in said
        assert httpx.get(f"{running.addresses.mlflow}/health", trust_env=False).text == "OK"


@pytest.mark.stack
def test_an_interrupted_up_leaves_nothing(tmp_path: Path, checkout: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from quality_lib.adapters.stack.local import LocalStack; "
        "LocalStack(Path(sys.argv[1]), Path(sys.argv[2])).up()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "home"), str(checkout)],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
    )
    stack = LocalStack(tmp_path / "home", checkout)
    deadline = time.monotonic() + 60
    while not any(p.pids for p in stack.status() if p.name == "mlflow"):
        assert time.monotonic() < deadline
        assert starter.poll() is None
        time.sleep(0.1)
    starter.send_signal(signal.SIGINT)
    _, error = starter.communicate(timeout=60)
    assert b"KeyboardInterrupt" in error
    assert [part.pids for part in stack.status() if part.pids] == []


def test_it_is_refused_outside_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no checkout of this project") as failure:
        LocalStack(tmp_path / "home", tmp_path)
    assert failure.value.file == str(tmp_path)


def test_an_unknown_part_is_refused(tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(BadInput, match="there is no part 'kafka'"):
        LocalStack(tmp_path, checkout).up(["kafka"])


def test_two_at_once_are_refused(tmp_path: Path, checkout: Path) -> None:
    stack = LocalStack(tmp_path, checkout)
    (tmp_path / "stack").mkdir()
    with (
        filelock.FileLock(tmp_path / "stack" / ".lock"),
        pytest.raises(OutsideFailure, match="another `up` or `down` is at work"),
    ):
        stack.up()


def test_looking_at_what_never_ran_writes_nothing(tmp_path: Path, checkout: Path) -> None:
    stack = LocalStack(tmp_path / "home", checkout)
    assert states(stack) == {PartState.STOPPED}
    assert stack.addresses().mlflow is None
    assert stack.addresses().airflow_password == ""
    assert not (tmp_path / "home").exists()
    with pytest.raises(OutsideFailure, match="Airflow does not run"):
        stack.airflow()


def test_down_without_up_is_fine(tmp_path: Path, checkout: Path) -> None:
    assert LocalStack(tmp_path / "home", checkout).down() == ()
