"""The route of a service through nginx: weights by configuration and graceful reload."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import filelock

from quality_lib.adapters.nginx import access_log as nginx_access_log
from quality_lib.adapters.nginx import connections as nginx_connections
from quality_lib.adapters.nginx.backend_address import resolve, split_address
from quality_lib.adapters.nginx.config import http_text, read_table
from quality_lib.adapters.nginx.connections import Worker
from quality_lib.adapters.nginx.locations import server_text
from quality_lib.adapters.nginx.options import NginxOptions, prefix
from quality_lib.adapters.nginx.program import write_whole
from quality_lib.adapters.nginx.served import asked_in_flight, summarise
from quality_lib.adapters.nginx.status import RouteStatus
from quality_lib.errors import BadInput, NoData, OutsideFailure
from quality_lib.rollout.ports import INSTANCE_HEADER, NOBODY, RouteTable, Served

HTTP_FILE, SERVER_FILE = "route.http.conf", "route.server.conf"
POLL_S = 0.02
LEEWAY_S = 0.3
UNSEEN_ANSWERS = 10
"""Where its processes cannot be seen: so many new connections in a row must meet the new table."""


class Nginx(Protocol):
    """A running nginx, ours or a user's."""

    def check(self, http_file: Path, server_file: Path) -> None:
        """Let it read files that are not in use; raises BadInput."""
        ...

    def check_all(self) -> None:
        """Let it read its whole configuration; raises BadInput."""
        ...

    def reload(self) -> None:
        """Make it read its configuration; raises OutsideFailure."""
        ...

    def is_running(self) -> bool:
        """Return whether it can be told anything."""
        ...

    def pids(self) -> tuple[int, ...]:
        """Return its processes on this machine; empty where they cannot be seen."""
        ...


class NginxRoute:
    """One service behind one nginx."""

    def __init__(
        self,
        service: str,
        nginx: Nginx,
        options: NginxOptions,
        status_url: str,
        *,
        timeout_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        prefix(service)  # a name that nginx cannot carry is refused at once
        self._service = service
        self._nginx = nginx
        self._options = options
        self._status = RouteStatus(service, status_url.rstrip("/"))
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._http_file = options.folder / HTTP_FILE
        self._server_file = options.folder / SERVER_FILE

    def table(self) -> RouteTable:
        """Return the table that nginx really works by: it is asked, no file is read.

        Raises:
            NoData: it runs and has not been given a table yet.
        """
        table = read_table(self._status.ask())
        if table is None:
            raise NoData(f"the route of '{self._service}' has no instance yet")
        return table

    def apply(self, table: RouteTable) -> None:
        """Put a table into force; return when no new request is split by an older one.

        Raises:
            BadInput: the table is another service's, or nginx refuses it; what was in force still is.
            OutsideFailure: nginx did not take it over; what was in force is written back.
        """
        if table.service != self._service:
            raise BadInput(f"this is the route of '{self._service}', not of '{table.service}'")
        self._put(table)

    def prepare(self) -> None:
        """Write the files and start what is ours to start, with the table of last time, if any."""
        self.write_missing_files()
        with self._locked():
            if not self._answers():
                self._nginx.check(self._http_file, self._server_file)
                self._nginx.check_all()
                self._nginx.reload()

    def write_missing_files(self) -> tuple[Path, Path]:
        """Write a route without instances where there are no files yet; return both, http first."""
        with self._locked():
            if not (self._http_file.exists() and self._server_file.exists()):
                self._write_files(*self._texts(None, 0)[:2])
        return self._http_file, self._server_file

    def split(self, since: datetime, until: datetime | None = None) -> Mapping[str, Served]:
        """Return what each backend did with the requests that began in the time, by the access log."""
        requests = nginx_access_log.read_requests(
            self._options.access_log, since.timestamp(), until.timestamp() if until else None
        )
        cut = nginx_access_log.cut_requests(self._options.error_log, requests)
        found: dict[str, list[nginx_access_log.LoggedRequest]] = {
            backend.name: [] for backend in self.table().backends
        }
        for request in requests:
            if not request.asked:
                found.setdefault(request.backend or NOBODY, []).append(request)
        return {
            name: summarise(taken, cut, None if name == NOBODY else self._in_flight_or_none(name))
            for name, taken in found.items()
        }

    def in_flight(self, backend: str) -> int | None:
        """Return how many requests the backend is answering now, at most; None where nobody can tell.

        Counted are nginx's connections to it. Where they cannot be seen, the backend is asked for what
        it runs and holds in its queue.
        """
        address = self.table().backend(backend).address
        workers = self._workers()
        if not workers:
            return asked_in_flight(address)
        target = split_address(resolve(address))
        open_ones = sum(worker.remotes.count(target) for worker in workers)
        return open_ones + sum(worker.unrouted for worker in workers if worker.is_leaving)

    def straight(self, backend: str) -> Mapping[str, str]:
        """Return the headers that lead a request to the backend whatever its weight."""
        return {INSTANCE_HEADER: self.table().backend(backend).name}

    def _put(self, table: RouteTable) -> None:
        with self._locked():
            told = self._status.ask_or_none()
            number = max(_number(self._revision_of_file()), _number((told or {}).get("revision")))
            http, server, revision = self._texts(table, number + 1)
            as_before = (told or {}).get("revision", "")
            if (
                _digest(as_before) == _digest(revision)
                and self._nginx.is_running()
                and self._revision_of_file() == as_before
            ):
                return
            self._try_out(http, server)
            kept = self._read_files()
            before = frozenset(worker.pid for worker in self._workers() or ())
            self._write_files(http, server)
            try:
                self._nginx.check_all()
                self._nginx.reload()
                self._wait_for(revision)
            except BaseException as error:
                self._write_back(kept, is_reloaded=not isinstance(error, BadInput))
                raise
            self._settle(before, has_copies=bool((told or {}).get("mirror")))

    def _texts(self, table: RouteTable | None, number: int) -> tuple[str, str, str]:
        """Return both files and the revision, whose digest tells equal configurations."""
        resolved = {b.address: resolve(b.address) for b in (table.backends if table else ())}
        server = server_text(self._service, self._options)
        draft = http_text(self._service, table, "", resolved, self._options)
        digest = hashlib.sha256(f"{draft}{server}".encode()).hexdigest()[:12]
        revision = f"{number}-{digest}"
        return (
            http_text(self._service, table, revision, resolved, self._options),
            server,
            revision,
        )

    def _try_out(self, http: str, server: str) -> None:
        trial = (self._options.folder / ".trial.http", self._options.folder / ".trial.server")
        for path, text in zip(trial, (http, server), strict=True):
            write_whole(path, text)
        self._nginx.check(*trial)

    def _write_files(self, http: str, server: str) -> None:
        """Write both; the one of the server block rarely changes, and names nothing of a table."""
        for path, text in ((self._server_file, server), (self._http_file, http)):
            if _read(path) != text:
                write_whole(path, text)

    def _read_files(self) -> tuple[str, str] | None:
        http, server = _read(self._http_file), _read(self._server_file)
        return (http, server) if http and server else None

    def _write_back(self, kept: tuple[str, str] | None, is_reloaded: bool) -> None:
        if kept is None:
            return
        self._write_files(*kept)
        if is_reloaded:
            try:
                self._nginx.reload()
            except (OutsideFailure, BadInput):
                return  # the cause is on its way up already

    def _wait_for(self, revision: str) -> None:
        deadline = self._clock() + self._timeout_s
        while (self._status.ask_or_none() or {}).get("revision") != revision:
            if self._clock() >= deadline:
                log = self._options.error_log
                raise OutsideFailure(
                    f"nginx has not taken over the new table of '{self._service}' within "
                    f"{self._timeout_s:.0f} s; its log {log} tells why"
                )
            self._sleep(POLL_S)

    def _settle(self, before: frozenset[int], has_copies: bool) -> None:
        """Wait until the workers of before take no more requests.

        A worker that is leaving accepts no connection, but a client's idle one may bring one more
        request for a moment (``keepalive_min_timeout``). Copies for a mirror hold connections without
        a client, and so hide idle clients.
        """
        if not before:
            self._settle_unseen()
            return
        deadline = self._clock() + self._timeout_s
        left_at: dict[int, float] = {}
        while True:
            now = self._clock()
            old = [worker for worker in self._workers() or () if worker.pid in before]
            for worker in old:
                if worker.is_leaving:
                    left_at.setdefault(worker.pid, now)
            # By then it has closed or used the idle connections of its clients.
            patient = now - self._options.keep_idle_s - LEEWAY_S
            if all(
                worker.pid in left_at
                and ((worker.unrouted == 0 and not has_copies) or left_at[worker.pid] <= patient)
                for worker in old
            ):
                return
            if now >= deadline:
                raise OutsideFailure(
                    f"workers of nginx still accept requests by the old table of '{self._service}' "
                    f"after {self._timeout_s:.0f} s"
                )
            self._sleep(POLL_S)

    def _settle_unseen(self) -> None:
        expected = self._status.ask()["revision"]
        same, deadline = 0, self._clock() + self._timeout_s
        while same < UNSEEN_ANSWERS and self._clock() < deadline:
            same = same + 1 if self._status.ask()["revision"] == expected else 0
            self._sleep(POLL_S)
        self._sleep(self._options.keep_idle_s + LEEWAY_S)

    def _workers(self) -> tuple[Worker, ...] | None:
        pids = self._nginx.pids()
        if not pids:
            return None
        return nginx_connections.read_workers(pids, nginx_connections.listening_ports(pids))

    def _in_flight_or_none(self, backend: str) -> int | None:
        try:
            return self.in_flight(backend)
        except BadInput:
            return None  # it is in the log and no longer in the table

    def _answers(self) -> bool:
        return self._status.ask_or_none() is not None and self._nginx.is_running()

    def _revision_of_file(self) -> str:
        found = re.match(r"# .*, revision (\S+)\. Written", _read(self._http_file) or "")
        return found[1] if found else ""

    @contextmanager
    def _locked(self) -> Generator[None]:
        lock = self._options.folder / ".lock"
        try:
            self._options.folder.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(lock, timeout=2 * self._timeout_s):
                yield
        except filelock.Timeout:
            raise OutsideFailure(
                f"somebody else has been changing the route of '{self._service}' for "
                f"{2 * self._timeout_s:.0f} s"
            ) from None
        except OSError as error:
            raise OutsideFailure(f"{lock} cannot be used: {error}") from error


def _number(revision: Any) -> int:
    match = re.match(r"\d+", str(revision or ""))
    return int(match[0]) if match else 0


def _digest(revision: str) -> str:
    return revision.partition("-")[2]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
