"""Processes of this machine, told apart so that a recycled process id is never mistaken or killed."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

SAME_START_S = 2.0
"""Start times are counted from the boot, whose own time moves a little when the clock is set."""

_children: dict[int, subprocess.Popen[bytes]] = {}
"""What this very process has started: the kernel keeps them as zombies until it asks for them."""


@dataclass(frozen=True)
class ProcessId:
    """A process for certain: its id and when it started (seconds since the epoch)."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the identity of a living process, or ``None``."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Return whether this process still runs; a zombie does not."""
        _reap(self.pid)
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START_S
            return same and process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
        except psutil.Error:
            return False


def start_session(
    command: Sequence[str], env: Mapping[str, str], folder: Path, log: Path
) -> ProcessId:
    """Start a program as the leader of a session of its own, its output appended to ``log``."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    # A child that is already dead is a zombie of ours and still has its identity.
    return ProcessId.of(child.pid) or ProcessId(child.pid, time.time())


@atexit.register
def _let_go() -> None:
    """Reap what has ended, and leave without a warning what is meant to outlive this process."""
    for child in _children.values():
        if child.poll() is None:
            child.returncode = 0


def exit_code(pid: int) -> int | None:
    """Return how a child of this process ended; ``None`` for a running or a foreign one."""
    _reap(pid)
    child = _children.get(pid)
    return child.returncode if child is not None else None


def session_members(
    leader: ProcessId, is_ours: Callable[[psutil.Process], bool]
) -> tuple[ProcessId, ...]:
    """Return the living processes of a session, the leader included.

    Workers outlive a killed leader (vLLM's engine does), so the session is searched even when its
    leader is gone. Then its number could belong to a later stranger, and ``is_ours`` decides.
    """
    known = leader.is_alive()
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) != leader.pid:
                continue
            identity = ProcessId(process.pid, process.create_time())
            in_time = identity.started >= leader.started - SAME_START_S
            if in_time and identity.is_alive() and (known or is_ours(process)):
                found.append(identity)
        except (psutil.Error, OSError):
            continue
    return tuple(found)


def marked(name: str, value: str) -> tuple[ProcessId, ...]:
    """Return the living processes that carry an environment variable with this value."""
    found = []
    for process in psutil.process_iter():
        if environment_of(process).get(name) == value:
            identity = ProcessId.of(process.pid)
            if identity is not None and identity.is_alive():
                found.append(identity)
    return tuple(found)


def environment_of(process: psutil.Process) -> Mapping[str, str]:
    """Return a process's environment; empty where it is hidden or was overwritten by a title."""
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def send(target: ProcessId, number: signal.Signals) -> None:
    """Send a signal if the process still is the one that was meant."""
    if not target.is_alive():
        return
    try:
        os.kill(target.pid, number)
    except ProcessLookupError:
        return


def wait_gone(
    targets: Iterable[ProcessId],
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[ProcessId, ...]:
    """Wait until the processes are gone; return those that are not after ``timeout_s`` seconds."""
    deadline = clock() + timeout_s
    left = tuple(target for target in targets if target.is_alive())
    while left and clock() < deadline:
        sleep(0.05)
        left = tuple(target for target in left if target.is_alive())
    return left


def _reap(pid: int) -> None:
    child = _children.get(pid)
    if child is not None:
        child.poll()
