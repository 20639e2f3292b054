"""The stack's background processes, with small Python programs as parts."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.adapters.stack.processes import Part, StackProcesses
from quality_lib.errors import OutsideFailure

SLEEP = "import time; time.sleep(300)"
WITH_CHILD = (
    "import subprocess, sys, pathlib, time\n"
    f"subprocess.Popen([sys.executable, '-c', '{SLEEP}'])\n"
    "pathlib.Path('ready').touch()\n"
    "time.sleep(300)"
)
STUBBORN = (
    "import signal, time, pathlib\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "pathlib.Path('ready').touch()\n"
    "time.sleep(300)"
)
DYING = "import sys; print('loading'); raise RuntimeError('no such table')"


@pytest.fixture
def stack(tmp_path: Path) -> Generator[StackProcesses]:
    stack = StackProcesses(tmp_path / "stack")
    yield stack
    stack.stop(["part"], 0.1)


def part(folder: Path, program: str, is_ready: Callable[[ProcessId], bool] | None = None) -> Part:
    return Part(
        name="part",
        command=(sys.executable, "-c", program),
        settings={"COLOUR": "blue"},
        surroundings=os.environ,
        folder=folder,
        is_ready=is_ready or (lambda _: (folder / "ready").exists()),
        timeout_s=30.0,
    )


def test_a_part_is_ended_with_its_children(stack: StackProcesses, tmp_path: Path) -> None:
    program = part(tmp_path, WITH_CHILD)
    stack.start(program)
    stack.wait_ready(program)
    assert len(stack.members("part")) == 2
    assert stack.stop(["part"], 10.0) == ()
    assert stack.members("part") == ()


def test_children_of_a_killed_part_are_found_and_ended(
    stack: StackProcesses, tmp_path: Path
) -> None:
    program = part(tmp_path, WITH_CHILD)
    leader = stack.start(program)
    stack.wait_ready(program)
    os.kill(leader.pid, signal.SIGKILL)
    while leader.is_alive():
        time.sleep(0.02)
    assert not stack.is_running("part")
    assert len(stack.members("part")) == 1
    stack.stop(["part"], 10.0)
    assert stack.members("part") == ()


def test_a_part_that_ignores_the_request_is_killed_and_told(
    stack: StackProcesses, tmp_path: Path
) -> None:
    program = part(tmp_path, STUBBORN)
    leader = stack.start(program)
    stack.wait_ready(program)
    assert stack.stop(["part"], 0.3) == (leader.pid,)


def test_a_part_without_a_finished_record_is_found_by_its_mark(
    stack: StackProcesses, tmp_path: Path
) -> None:
    program = part(tmp_path, WITH_CHILD)
    stack.start(program)
    stack.wait_ready(program)
    (tmp_path / "stack" / "part.json").unlink()
    assert len(stack.members("part")) == 2


def test_the_failure_of_a_dying_part_tells_its_last_error_and_its_log(
    stack: StackProcesses, tmp_path: Path
) -> None:
    program = part(tmp_path, DYING)
    stack.start(program)
    with pytest.raises(OutsideFailure) as failure:
        stack.wait_ready(program)
    said = str(failure.value)
    assert "part died while starting with exit code 1" in said
    assert "RuntimeError: no such table" in said
    assert str(stack.log_path("part")) in said


def test_a_part_that_is_never_ready_fails_after_its_time(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    stack = StackProcesses(tmp_path / "stack", clock=lambda: now[0], sleep=sleep)
    program = part(tmp_path, SLEEP, lambda _: False)
    stack.start(program)
    try:
        with pytest.raises(OutsideFailure, match="part is not ready after 30 s"):
            stack.wait_ready(program)
        assert 30.0 <= now[0] < 31.0
    finally:
        StackProcesses(tmp_path / "stack").stop(["part"], 5.0)


def test_a_program_that_does_not_exist_is_an_outside_failure(
    stack: StackProcesses, tmp_path: Path
) -> None:
    missing = Part("part", ("/no/such/program",), {}, {}, tmp_path, lambda _: True)
    with pytest.raises(OutsideFailure, match="part cannot be started"):
        stack.start(missing)


@pytest.mark.parametrize(
    ("field", "value", "same"),
    [
        ("surroundings", {"SHLVL": "2"}, True),
        ("settings", {"COLOUR": "red"}, False),
        ("command", ("other",), False),
        ("configuration", "port = 1", False),
    ],
)
def test_what_calls_for_a_restart(tmp_path: Path, field: str, value: object, same: bool) -> None:
    before = part(tmp_path, SLEEP)
    after = Part(**{**vars(before), field: value})
    assert (after.fingerprint == before.fingerprint) is same


def test_a_garbled_record_counts_as_none(stack: StackProcesses, tmp_path: Path) -> None:
    (tmp_path / "stack").mkdir()
    (tmp_path / "stack" / "part.json").write_text('{"name": "part"')
    assert stack.record("part") is None
    assert not stack.is_running("part")
