"""Runs one command of the library as a child process and reads its result.

The contract is the command line's: one JSON object on stdout, words for people on stderr, the exit code
says what kind of end it was. Nothing heavy is imported into Airflow's own processes this way, and the
interpreter may belong to an environment without Airflow.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

GOOD, BAD_QUALITY, BAD_INPUT, OUTSIDE, INCONCLUSIVE = range(5)
"""Exit codes as ``quality_lib.errors`` documents them."""

PYTHON_ENV = "QUALITY_PYTHON"
GRACE_S = 3.0
"""Between asking and killing. Airflow itself waits 5 s from SIGTERM to SIGKILL: ours must be shorter."""
_KEPT_LINES = 30
_MAX_LINE = 2000
_PR_SET_PDEATHSIG = 1


class OutsideFailed(AirflowException):
    """A server, store or disk outside failed; a retry may succeed and resumes what was done."""


class CommandCrashed(AirflowException):
    """The command ended without keeping its contract: killed, out of memory, or a defect."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    result: Mapping[str, Any] | None
    """The object it printed, or nothing."""
    message: str
    """Its last word on stderr: the error's sentence where it failed."""


def interpreter() -> str:
    """Return the Python that has the library: ``$QUALITY_PYTHON``, else the one that runs Airflow."""
    return os.environ.get(PYTHON_ENV) or sys.executable  # noqa: TID251


class Command:
    """A command of the library that can be killed with everything it has started."""

    def __init__(self, arguments: Sequence[str], *, python: str | None = None) -> None:
        self.arguments = tuple(arguments)
        self._argv = [python or interpreter(), "-m", "quality_lib", *self.arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, say: Callable[[str], None]) -> Outcome:
        """Run to the end; every line of stderr goes to ``say`` as it comes."""
        last: deque[str] = deque(maxlen=_KEPT_LINES)
        with tempfile.TemporaryFile() as stdout:
            process = self._process = self._start(stdout.fileno())
            try:
                # This thread waits here and not in wait(): kill() may then reap from a signal handler.
                with _stderr_of(process) as stderr:
                    for raw in stderr:
                        line = raw.decode("utf-8", "replace").rstrip()[:_MAX_LINE]
                        if line:
                            last.append(line)
                            say(line)
                code = process.wait()
            finally:
                self.kill()
            stdout.seek(0)
            return Outcome(code, _json_object(stdout.read()), _last_word(last))

    def kill(self) -> None:
        """End the child and its process group; returns when they are gone. Nothing to do is fine."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                _signal_group(process.pid, signal.SIGKILL)
                process.wait()
        _signal_group(process.pid, signal.SIGKILL)  # what the child itself left behind
        self._process = None

    def _start(self, stdout: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._argv,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - the only way to survive a kill -9 of the task
        )

    @staticmethod
    def _environment() -> dict[str, str]:
        plain = {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "160"}
        return {**os.environ, **plain}  # noqa: TID251


def result_of(outcome: Outcome, command: str) -> Mapping[str, Any] | None:
    """Return the result, or nothing when the command had no data and so printed none.

    Bad quality is a result. Only a broken checker is an exception, and its type says whether another try
    makes sense.
    """
    if outcome.code == BAD_INPUT:
        raise AirflowFailException(f"{command}: {outcome.message}")
    if outcome.code == OUTSIDE:
        raise OutsideFailed(f"{command}: {outcome.message}")
    if outcome.code < 0:
        name = signal.Signals(-outcome.code).name
        raise CommandCrashed(f"{command} was ended by {name}; last said: {outcome.message}")
    if outcome.code == INCONCLUSIVE:
        return outcome.result
    if outcome.code not in {GOOD, BAD_QUALITY} or outcome.result is None:
        raise CommandCrashed(
            f"{command} ended with {outcome.code} and no result; last said: {outcome.message}"
        )
    return outcome.result


def _stderr_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stderr is None:
        raise RuntimeError("the command was started without a pipe")
    return process.stderr


def _json_object(stdout: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(stdout)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _last_word(lines: deque[str]) -> str:
    """Prefer the error's own sentence to whatever was logged after it."""
    for line in reversed(lines):
        if line.startswith("error: "):
            return line.removeprefix("error: ")
    return lines[-1] if lines else "nothing"


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return


def _die_with_parent() -> Callable[[], None]:
    """Make the kernel end the child when this process dies, however it dies. Linux only, else nothing."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died in between
            os._exit(OUTSIDE)

    return before_exec
