"""The access log of a route, read for what began in a stretch of time; rotation loses nothing.

Lines are written when requests end, so files are read backwards until everything is older. A log that
was rotated (``access.log.1``, ``access.log-20261130``, ``.gz``) is read on in its older files.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quality_lib.errors import OutsideFailure

SLACK_S = 5.0
"""Workers write side by side: an older line may stand so much later."""
BLOCK = 1 << 20
ERROR_TAIL = 16 << 20
ATTEMPTS = 5

QUARTER_S = 900
NEAR_S = 2.0
"""The error log's seconds have no fractions, and the two lines are not written at once."""
FAILED_STATUS = 500

_BROKEN = re.compile(
    rb"^\S+ (\d\d):(\d\d):(\d\d) \[\w+\] (\d+)#\d+: \*(\d+) "
    rb"(?:upstream |recv\(\) |SSL_read\(\) ).* while (?:reading upstream|sending to client)"
)


@dataclass(frozen=True)
class LoggedRequest:
    """One finished request."""

    began: float
    """Seconds since the epoch, in the proxy's clock, whole milliseconds: nginx cuts off the rest."""
    took_s: float
    """Of a copied request: until its own answer ended, not that of the copy."""
    backend: str
    """Empty when none was reached."""
    status: int
    is_done: bool
    """False when the client left; an answer that its backend broke off is done, for nginx."""
    asked: str
    """The backend that its header asked for."""
    connection: tuple[int, int]
    """Process and number: the same in the error log."""
    ended: float


def read_requests(path: Path, since: float, until: float | None = None) -> list[LoggedRequest]:
    """Return the requests that began from ``since`` to before ``until``, in no certain order.

    Both are cut off to milliseconds like the log itself, so a request that began a moment after
    ``since`` counts, and one at the border of two stretches counts in exactly one.

    Raises:
        OutsideFailure: there is no log, or it is being rotated again and again.
    """
    first, end = _milliseconds(since), math.inf if until is None else _milliseconds(until)
    for _ in range(ATTEMPTS):
        before = _identity(path)
        found: dict[bytes, LoggedRequest] = {}
        for line in _lines_until(path, since - SLACK_S):
            request = _parse(line)
            if request and first <= request.began < end:
                # Copying rotations leave a line in two files for a moment.
                found[line] = request
        if before is not None and before == _identity(path):
            return list(found.values())
    raise OutsideFailure(
        f"{path} cannot be read: it is missing, or rotated while it is read. "
        "Is it the access log of the running nginx?"
    )


def cut_requests(error_log: Path, requests: Sequence[LoggedRequest]) -> frozenset[LoggedRequest]:
    """Return the requests whose answer a backend broke off; the access log calls them complete.

    The error log names connection and second. A connection serves one request after the other, so of
    those that ended then it was the last.

    Raises:
        OutsideFailure: there is no error log, so nobody can tell.
    """
    files = _files(error_log)
    if not files:
        raise OutsideFailure(f"{error_log} is missing: it alone tells which answers were cut")
    found = set()
    by_connection: dict[tuple[int, int], list[LoggedRequest]] = {}
    for request in requests:
        if request.status < FAILED_STATUS:
            by_connection.setdefault(request.connection, []).append(request)
    for connection, second in _breaks(files):
        near = [
            request
            for request in by_connection.get(connection, ())
            if -0.5 <= _part_of_quarter(request.ended - second) <= NEAR_S
        ]
        if near:
            found.add(max(near, key=lambda request: request.ended))
    return frozenset(found)


def _milliseconds(moment: float) -> float:
    # A moment of a whole millisecond may stand a hair below it as a float.
    return math.floor(moment * 1000 + 0.0005) / 1000


def _breaks(files: Sequence[Path]) -> Iterator[tuple[tuple[int, int], float]]:
    for file in files[:2]:
        try:
            with _opened(file) as stream:
                if file.suffix != ".gz":
                    stream.seek(max(0, file.stat().st_size - ERROR_TAIL))
                for line in stream:
                    if match := _BROKEN.match(line):
                        yield (int(match[4]), int(match[5])), 60 * int(match[2]) + int(match[3])
        except (OSError, EOFError):
            continue


def _part_of_quarter(seconds: float) -> float:
    """Return the difference within a quarter of an hour: zones of time differ by whole ones."""
    return (seconds + QUARTER_S / 2) % QUARTER_S - QUARTER_S / 2


def _lines_until(path: Path, oldest: float) -> Iterator[bytes]:
    """Yield lines, newest first, until one ended before ``oldest``."""
    for file in _files(path):
        for line in _backwards(file):
            ended = _ended(line)
            if ended is not None and ended < oldest:
                return
            yield line


def _files(path: Path) -> list[Path]:
    """Return the log and what it was rotated to, newest first."""
    name = re.compile(re.escape(path.name) + r"([.-].+)?")
    found = []
    try:
        for one in path.parent.iterdir():
            if name.fullmatch(one.name) and one.is_file():
                found.append((one != path, -one.stat().st_mtime, one))
    except OSError:
        return []
    return [one for _, _, one in sorted(found)]


def _backwards(file: Path) -> Iterator[bytes]:
    try:
        with _opened(file) as stream:
            if file.suffix == ".gz":
                yield from reversed(stream.read().splitlines())
                return
            at = stream.seek(0, os.SEEK_END)
            rest = b""
            while at > 0:
                size = min(BLOCK, at)
                at -= size
                stream.seek(at)
                head, *lines = (stream.read(size) + rest).split(b"\n")
                yield from reversed(lines)
                rest = head
            yield rest
    except (FileNotFoundError, EOFError, gzip.BadGzipFile):
        return  # rotated away, or still being packed: the caller looks again
    except OSError as error:
        raise OutsideFailure(f"{file} cannot be read: {error}") from error


def _opened(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return gzip.open(file)  # type: ignore[return-value]  # it reads bytes like any other
    return file.open("rb")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _ended(line: bytes) -> float | None:
    match = re.match(rb'\{"end":(\d+\.\d+),', line)
    return float(match[1]) if match else None


def _parse(line: bytes) -> LoggedRequest | None:
    """Return the request of a line; ``None`` of a torn or foreign one."""
    try:
        data: dict[str, Any] = json.loads(line.decode("utf-8", "replace"))
        ended, took = float(data["end"]), float(data["took"])
        answer = str(data["answer"]).replace(":", ",").split(",")[-1].strip()
        return LoggedRequest(
            began=round(ended - took, 3),
            took_s=float(answer) if data["copied"] and answer not in {"", "-"} else took,
            backend=str(data["backend"]),
            status=int(data["status"] or 0),
            is_done=data["done"] == "OK",
            asked=str(data["asked"]),
            connection=(int(data["pid"]), int(data["connection"])),
            ended=ended,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
