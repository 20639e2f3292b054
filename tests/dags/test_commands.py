"""A command as a child process: its result, its words, and its end when the task ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from quality_airflow.commands import Command, CommandCrashed, Outcome, OutsideFailed, result_of

from tests.dags.conftest import ROOT, Library, alive


def run(library: Library, **answer: object) -> tuple[Outcome, list[str]]:
    library.answer({"golden check chat": [answer]})
    said: list[str] = []
    return Command(["golden", "check", "--service", "chat"]).run(said.append), said


def test_the_result_is_what_it_printed_and_stderr_goes_to_the_log(library: Library) -> None:
    outcome, said = run(library, json={"summary": "healthy"}, stderr="asking\nhalf way")
    assert outcome == Outcome(0, {"summary": "healthy"}, "half way")
    assert said == ["asking", "half way"]


def test_more_than_a_pipe_holds_does_not_block(library: Library) -> None:
    outcome, said = run(library, json={"x": "y" * 300_000}, stderr="z\n" * 100_000)
    assert outcome.result is not None
    assert len(outcome.result["x"]) == 300_000
    assert len(said) == 100_000


def test_bad_quality_is_a_result(library: Library) -> None:
    outcome, _ = run(library, code=1, json={"summary": "failed"})
    assert result_of(outcome, "golden check") == {"summary": "failed"}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (2, "AirflowFailException"),
        (3, "OutsideFailed"),
        (1, "CommandCrashed"),
        (0, "CommandCrashed"),
    ],
)
def test_what_is_no_result_is_an_exception_with_the_commands_own_words(
    library: Library, code: int, error: str
) -> None:
    outcome, _ = run(library, code=code, stderr="error: quality.yaml:3: no endpoint\nlater noise")
    with pytest.raises(Exception, match=r"golden check.*quality.yaml:3: no endpoint") as caught:
        result_of(outcome, "golden check")
    assert type(caught.value).__name__ == error


def test_inconclusive_without_a_result_is_none_of_both(library: Library) -> None:
    outcome, _ = run(library, code=4, stderr="error: no snapshot")
    assert result_of(outcome, "golden check") is None
    assert outcome.message == "no snapshot"


def test_a_killed_command_is_worth_a_retry() -> None:
    with pytest.raises(CommandCrashed, match="SIGKILL"):
        result_of(Outcome(-9, None, ""), "golden check")
    assert not issubclass(OutsideFailed, CommandCrashed)


@pytest.mark.parametrize(
    ("number", "dies_of"), [(signal.SIGTERM, "on_kill"), (signal.SIGKILL, "the kernel")]
)
def test_a_killed_task_leaves_nothing_running(
    library: Library, number: signal.Signals, dies_of: str
) -> None:
    library.answer({"golden check chat": [{"hang": True}]})
    # As Airflow's task runner does: a SIGTERM calls the operator's on_kill from the signal handler.
    task = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal\n"
            "from quality_airflow.commands import Command\n"
            "command = Command(['golden', 'check', '--service', 'chat'])\n"
            "signal.signal(signal.SIGTERM, lambda *_: command.kill())\n"
            "outcome = command.run(print)\n"
            "assert outcome.code == -signal.SIGTERM, outcome\n",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")},
    )
    pids = _pids(library.home / "pids")
    os.kill(task.pid, number)
    code = task.wait(timeout=30)
    assert code == (0 if dies_of == "on_kill" else -number)  # it says how the command ended
    # A kill -9 reaches only the command itself, as it has no children of its own in the library.
    ours = pids if dies_of == "on_kill" else pids[:1]
    deadline = time.monotonic() + 10
    while any(map(alive, ours)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in ours if alive(pid)]
    for pid in filter(alive, pids):
        os.kill(pid, signal.SIGKILL)
    assert left == []


def _pids(file: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if file.exists() and len(pids := file.read_text().split()) == 2:
            return [int(pid) for pid in pids]
        time.sleep(0.05)
    raise TimeoutError(file)
