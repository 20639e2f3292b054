"""The nginx that this product runs itself, as a process of this machine, for one route."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil

from quality_lib.adapters.machine import processes
from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.adapters.nginx.config import main_text, trial_text
from quality_lib.adapters.nginx.options import STATUS_PATH, NginxOptions
from quality_lib.adapters.nginx.program import run, write_whole
from quality_lib.adapters.nginx.status import one_shot_client
from quality_lib.adapters.stack.processes import Part, StackProcesses
from quality_lib.errors import OutsideFailure

NAME = "nginx"
ROUTES = "route"
"""Below the home folder: one folder per route."""
POLL_S = 0.02
GRACE_S = 5.0


class NginxProcess:
    """One nginx, whose files and records lie in ``options.folder``."""

    def __init__(
        self,
        binary: Path,
        listen: str,
        http_file: Path,
        server_file: Path,
        options: NginxOptions,
        *,
        timeout_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._binary = binary
        self._listen = listen
        self._files = (http_file, server_file)
        self._options = options
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._processes = StackProcesses(options.folder / "process", clock=clock, sleep=sleep)

    @property
    def log_path(self) -> Path:
        """Where nginx writes what it says of itself."""
        return self._options.error_log

    def check(self, http_file: Path, server_file: Path) -> None:
        """Let nginx read files that are not in use yet.

        Raises:
            BadInput: it refuses them.
        """
        trial = self._options.folder / ".trial.conf"
        self._make_folders()
        write_whole(trial, trial_text(http_file, server_file, self._options))
        run(self._command(trial, "-t", "-q"))

    def check_all(self) -> None:
        """Nothing more: what ``check`` has read is all that there is."""

    def reload(self) -> None:
        """Make nginx read its files; start it when it does not run.

        Workers that have lost their master serve on and hear of no new table. They are told to finish
        what they have, and a new master takes their place.
        """
        self._make_folders()
        write_whole(self._main_file, main_text(self._listen, *self._files, self._options))
        master = self._master()
        if master is not None:
            processes.send(master, signal.SIGHUP)
            return
        self._let_go_orphans()
        part = self._part()
        self._processes.start(part)
        self._processes.wait_ready(part)

    def stop(self, grace_s: float = GRACE_S) -> tuple[int, ...]:
        """End nginx; requests in flight may take ``grace_s`` to finish. Return what had to be killed."""
        return _stop(self._options.folder, grace_s)

    def is_running(self) -> bool:
        """Return whether the master process lives."""
        return self._master() is not None

    def pids(self) -> tuple[int, ...]:
        """Return every process of it, also workers that have lost their master."""
        return tuple(member.pid for member in _members(self._options.folder))

    def _master(self) -> ProcessId | None:
        record = self._processes.record(NAME)
        leader = record.leader if record is not None else None
        return leader if leader is not None and leader.is_alive() else None

    def _let_go_orphans(self) -> None:
        """Let orphans close their listening sockets, which a new master needs, and finish their work."""
        for orphan in _members(self._options.folder):
            processes.send(orphan, signal.SIGQUIT)

    def _part(self) -> Part:
        return Part(
            name=NAME,
            command=self._command(self._main_file, "-g", "daemon off;"),
            settings={},
            surroundings={},
            folder=self._options.folder,
            is_ready=lambda _: self._answers(),
            timeout_s=self._timeout_s,
        )

    def _answers(self) -> bool:
        try:
            one_shot_client().get(f"http://{self._listen}{STATUS_PATH}")
        except httpx.HTTPError:
            return False
        return True

    def _command(self, main: Path, *arguments: str) -> tuple[str, ...]:
        folder = str(self._options.folder)
        # The log of before the configuration is read; "stderr" is kept by our own record.
        return (str(self._binary), "-p", folder, "-e", "stderr", "-c", str(main), *arguments)

    @property
    def _main_file(self) -> Path:
        return self._options.folder / "nginx.conf"

    def _make_folders(self) -> None:
        try:
            (self._options.folder / "temporary").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutsideFailure(f"{self._options.folder} cannot be used: {error}") from error


def stop_all(home: Path, grace_s: float = GRACE_S) -> tuple[int, ...]:
    """End every nginx whose route lies below ``home``; return what had to be killed."""
    folders = sorted(path for path in (home.absolute() / ROUTES).glob("*") if path.is_dir())
    return tuple(pid for folder in folders for pid in _stop(folder, grace_s))


def _stop(folder: Path, grace_s: float) -> tuple[int, ...]:
    members = _members(folder)
    for member in members:
        processes.send(member, signal.SIGQUIT)
    forced = processes.wait_gone(members, grace_s)
    for member in forced:
        processes.send(member, signal.SIGKILL)
    if processes.wait_gone(forced, GRACE_S) or _members(folder):
        raise OutsideFailure(f"nginx in {folder} cannot be ended")
    return tuple(member.pid for member in forced)


def _members(folder: Path) -> tuple[ProcessId, ...]:
    """Return every process of the nginx that was started in this folder, orphans too.

    nginx overwrites its environment with a title, so its working folder is the only mark that lasts.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if "nginx" in process.name() and Path(process.cwd()) == folder:
                found.append(ProcessId(process.pid, process.create_time()))
        except (psutil.Error, OSError):
            continue
    return tuple(one for one in found if one.is_alive())


def worker_user() -> str:
    """Return whom workers must run as to reach the route's folder; empty for nobody in particular.

    Started by root, nginx would give its workers to ``nobody``, who may not enter a home folder.
    """
    if os.geteuid() != 0:
        return ""
    return f"{pwd.getpwuid(0).pw_name} {grp.getgrgid(os.getegid()).gr_name}"
