"""The files of the exchange log in one folder: written by several processes, finished, recovered, bounded.

Who writes or ships a file holds its lock (``flock``), which the kernel gives back when the process
dies, however it dies. So a file ``….jsonl.open`` whose lock is free belongs to a dead process.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from quality_lib.exchanges.log_name import LogName, safe_name

COPY_BYTES = 1024 * 1024


class OpenLogFile:
    """A file that this process writes; whole lines only."""

    def __init__(self, path: Path, name: LogName, fd: int) -> None:
        self.path = path
        self.name = name
        self.fd = fd
        self.size = 0
        self.records = 0

    def write(self, lines: bytes, records: int = 1) -> None:
        """Hand whole lines to the operating system in one call; all of them or none.

        Raises:
            OSError: nothing of them is in the file.
        """
        try:
            written = os.write(self.fd, lines)
        except OSError:
            self._cut()
            raise
        if written != len(lines):
            # The disk is full. Half a line would make the next one unreadable too.
            self._cut()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written
        self.records += records

    @property
    def has_vanished(self) -> bool:
        """Whether somebody removed the file: what is written to it is lost."""
        return os.fstat(self.fd).st_nlink == 0

    def _cut(self) -> None:
        if os.fstat(self.fd).st_size > self.size:
            os.ftruncate(self.fd, self.size)


@dataclass(frozen=True)
class FinishedFile:
    """A file that nobody writes any more."""

    path: Path
    name: LogName
    size: int

    @property
    def records(self) -> int:
        """How many lines it holds."""
        return self.name.records or 0


@dataclass(frozen=True)
class Recovered:
    """What dead processes had left."""

    files: int = 0
    records: int = 0
    cut_lines: int = 0
    """Lines that a kill had left half written."""


class LogFolder:
    """The log files of one service in one folder; other processes and services may use it too."""

    def __init__(
        self, folder: Path, service: str, instance: str, clock: Callable[[], float]
    ) -> None:
        """Describe the folder; nothing is touched. ``instance`` must be unique per process."""
        self.folder = folder
        self._service = safe_name(service)
        self._instance = safe_name(instance, joiners="._")
        self._clock = clock
        self._seq = 0

    def now(self) -> float:
        """Return the time, seconds since the epoch."""
        return self._clock()

    def open_next(self) -> OpenLogFile:
        """Make and lock the next file, mode 0600; the folder is made, mode 0700, if it is gone."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        started = datetime.fromtimestamp(self.now(), UTC).replace(microsecond=0)
        while True:
            self._seq += 1
            name = LogName(self._service, self._instance, started, self._seq)
            path = self.folder / str(name)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                fd = os.open(path, flags, 0o600)
            except FileExistsError:
                continue
            # Between the two calls another process may have taken the empty file for a dead one's.
            if _locked(fd) and os.fstat(fd).st_nlink:
                return OpenLogFile(path, name, fd)
            os.close(fd)

    def finish(self, file: OpenLogFile) -> FinishedFile | None:
        """Put the file on disk and give it its final name; an empty one is removed.

        Raises:
            OSError: it keeps its open name, and ``recover`` finishes it later.
        """
        try:
            if not file.records:
                file.path.unlink(missing_ok=True)
                return None
            _settle(file.fd)
            return self._rename(file.path, file.name, file.records, file.size)
        finally:
            os.close(file.fd)

    def recover(self) -> Recovered:
        """Finish what dead processes have left; files that are being written are not touched."""
        total = Recovered()
        for path, name in self._files():
            if name.records is None:
                with taken(path) as fd:
                    if fd is not None:
                        one = self._recover(fd, path, name)
                        total = Recovered(
                            total.files + one.files,
                            total.records + one.records,
                            total.cut_lines + one.cut_lines,
                        )
        return total

    def finished(self) -> list[FinishedFile]:
        """Return every finished file, the oldest first."""
        found = []
        for path, name in self._files():
            if name.records is not None:
                try:
                    found.append(FinishedFile(path, name, path.stat().st_size))
                except FileNotFoundError:
                    continue  # shipped or dropped by another process in between
        return sorted(found, key=lambda file: file.name.age_order)

    def make_room(self, max_bytes: float, file_bytes: float) -> list[FinishedFile]:
        """Remove the oldest finished files until the folder fits; return what was removed.

        Open files count as ``file_bytes`` each, up to half of the bound.
        """
        finished = self.finished()
        opened = sum(1 for _, name in self._files() if name.records is None)
        allowed = max_bytes - min(opened * file_bytes, max_bytes / 2)
        total = sum(file.size for file in finished)
        removed = []
        for file in finished:
            if total <= allowed:
                break
            with taken(file.path) as fd:
                if fd is None:
                    continue  # it is being shipped
                with suppress(OSError):
                    file.path.unlink()
                    removed.append(file)
                    total -= file.size
        return removed

    def _recover(self, fd: int, path: Path, name: LogName) -> Recovered:
        size = os.fstat(fd).st_size
        records, end = _whole_lines(fd)
        if not records:
            path.unlink(missing_ok=True)
            return Recovered(cut_lines=int(size > 0))
        if end < size:
            os.ftruncate(fd, end)
        _settle(fd)
        self._rename(path, name, records, end)
        return Recovered(1, records, int(end < size))

    @staticmethod
    def _rename(path: Path, name: LogName, records: int, size: int) -> FinishedFile:
        final = LogName(name.service, name.instance, name.started, name.seq, records)
        target = path.with_name(str(final))
        path.rename(target)
        return FinishedFile(target, final, size)

    def _files(self) -> Iterator[tuple[Path, LogName]]:
        try:
            names = os.listdir(self.folder)  # noqa: PTH208  a list of names, no Path each
        except FileNotFoundError:
            return
        for text in names:
            if (name := LogName.parse(text)) is not None:
                yield self.folder / text, name


@contextmanager
def taken(path: Path) -> Generator[int | None]:
    """Hold a file's lock; gives its descriptor, or ``None`` when another holds it or it is gone."""
    try:
        # No symbolic link: a name in this folder must not lead out of it.
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield None
        return
    try:
        is_ours = _locked(fd) and os.fstat(fd).st_nlink > 0 and path.exists()
        yield fd if is_ours else None
    finally:
        os.close(fd)


def _settle(fd: int) -> None:
    """Put a finished file on the disk, so that a power cut costs at most the files still open."""
    with suppress(OSError):
        os.fsync(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


def _whole_lines(fd: int) -> tuple[int, int]:
    """Return how many whole lines a file holds, and where the last of them ends."""
    lines, end, position = 0, 0, 0
    while block := os.pread(fd, COPY_BYTES, position):
        lines += block.count(b"\n")
        if (last := block.rfind(b"\n")) >= 0:
            end = position + last + 1
        position += len(block)
    return lines, end
