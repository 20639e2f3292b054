"""What the operating system knows of an instance's processes: numbers, and where they stand."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from quality_lib.adapters.evidence.secrets import SecretMask
from quality_lib.serving.arguments import mask_secrets

MOST_THREADS = 400
DUMPER = "py-spy"


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; empty when it is gone."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.Error:
        return []


def process_facts(pid: int, mask: SecretMask) -> list[dict[str, Any]]:
    """Return numbers of each process of an instance; what may not be read is ``None``."""
    return [_facts(process, mask) for process in family(pid)]


def environment_of(pid: int) -> Mapping[str, str]:
    """Return a process's environment; empty when it may not be read or was overwritten by a title."""
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


def arguments_of(pid: int) -> list[str]:
    """Return a process's argument list; empty when it is gone."""
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.Error, OSError):
        return []


def stacks(pid: int, timeout_s: float) -> tuple[str, str]:
    """Return where every thread of an instance stands, and what could not be seen.

    ``py-spy`` is used where it is installed and allowed; else the kernel's word, which names the
    system call that a thread waits in but no line of Python.
    """
    dumper = shutil.which(DUMPER)
    texts: list[str] = []
    problems: list[str] = [] if dumper else [f"{DUMPER} is not installed: no Python stacks"]
    for process in family(pid):
        title = f"process {process.pid} {_seen(process.name)}"
        dump, problem = _py_spy(dumper, process.pid, timeout_s) if dumper else ("", "")
        if problem:
            problems.append(f"process {process.pid}: {problem}")
        texts.append(f"== {title}\n{dump or _kernel_stacks(process.pid)}")
    return "\n".join(texts), "; ".join(dict.fromkeys(problems))


def _py_spy(dumper: str, pid: int, timeout_s: float) -> tuple[str, str]:
    command = [dumper, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{DUMPER} failed ({type(error).__name__})"
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return "", f"{DUMPER} was refused: {lines[-1][:200] if lines else done.returncode}"
    return done.stdout, ""


def _kernel_stacks(pid: int) -> str:
    lines = []
    try:
        tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda path: int(path.name))
    except OSError:
        return "(not readable)\n"
    for task in tasks[:MOST_THREADS]:
        name, state, waits = (_read(task / "comm"), _state(task), _read(task / "wchan"))
        lines.append(f"thread {task.name} {name or '?'}: {state}, in {waits or '?'}")
        lines += [f"    {line}" for line in _read(task / "stack").splitlines()]
    if len(tasks) > MOST_THREADS:
        lines.append(f"… {len(tasks) - MOST_THREADS} more threads")
    return "\n".join(lines) + "\n"


def _state(task: Path) -> str:
    found = [line for line in _read(task / "status").splitlines() if line.startswith("State:")]
    return found[0].partition(":")[2].strip() if found else "?"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _facts(process: psutil.Process, mask: SecretMask) -> dict[str, Any]:
    def numbers(read: Callable[[], Any]) -> dict[str, Any] | None:
        found = _seen(read)
        return None if found is None else found._asdict()

    arguments = _seen(process.cmdline)
    return {
        "pid": process.pid,
        "parent": _seen(process.ppid),
        "name": _seen(process.name),
        "status": _seen(process.status),
        "command_line": arguments and [mask.text(arg) for arg in mask_secrets(arguments)],
        "started": _seen(process.create_time),
        "memory_bytes": numbers(process.memory_info),
        "cpu_seconds": numbers(process.cpu_times),
        "threads": _seen(process.num_threads),
        "open_files": _seen(process.num_fds),
        "context_switches": numbers(process.num_ctx_switches),
    }


def _seen(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (psutil.Error, OSError):
        return None
