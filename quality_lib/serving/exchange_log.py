"""Writes exchanges as JSON lines without ever failing or holding up a request.

A record is masked, encoded and handed to the operating system by whoever appends it, so a process
that is killed loses at most the line that is being written: measured, that costs the caller less than
a hand-over to another thread, which would need the interpreter for the same work anyway. Everything
that can take long or fail stays with one thread: opening, finishing, recovering and dropping files.
As soon as the disk refuses or is slow, records queue up in memory, bounded, and the thread writes
them; what does not fit is lost and counted.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from quality_lib.serving.log_files import LogFolder, OpenLogFile
from quality_lib.settings import ExchangeLogSettings

log = logging.getLogger(__name__)

QUEUE_BYTES = 32 * 1024 * 1024
"""Encoded records that wait in memory for a disk that refuses or is slow."""
MAX_LINE_BYTES = 15_000_000
"""A longer record is lost: readers take lines up to 16 MB."""
SLOW_S = 0.25
"""After a write that took longer (a stalled device; being short of CPU takes less) the thread does the
writing ..."""
CALM_S = 10.0
"""... for this long."""
TICK_S = 0.5
"""How often the thread looks after the files when nobody calls it."""
FOLDER_S = 5.0
"""How often it looks after the whole folder: what dead processes left, and the bound on the disk."""
BATCH_BYTES = 256 * 1024
MIB = 1024 * 1024

Lost = Callable[[str, int], None]
"""Told the cause and number of records that were lost."""


class ExchangeLog:
    """The log of one process. ``append`` may be called from any thread and from the event loop."""

    def __init__(
        self,
        folder: LogFolder,
        limits: ExchangeLogSettings,
        *,
        prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        on_lost: Lost,
        on_written: Callable[[int], None] = lambda _: None,
        monotonic: Callable[[], float] = time.perf_counter,
        tick_s: float = TICK_S,
    ) -> None:
        """Start the thread; the folder is first touched there. ``prepare`` masks."""
        self._folder = folder
        self._max_age_s = limits.max_file_s
        self._max_disk = limits.max_disk_mb * MIB
        # So that dropping the oldest file never drops most of what is kept.
        self._max_file = min(limits.max_file_mb * MIB, self._max_disk / 16)
        self._prepare = prepare
        self._on_lost = on_lost
        self._on_written = on_written
        self._monotonic = monotonic
        self._tick_s = tick_s
        self._writing = threading.Lock()
        """Held while something is written to, or put in the place of, the open file."""
        self._file: OpenLogFile | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._direct_from = -math.inf
        """When callers may write themselves (again)."""
        self._trouble = ""
        self._folder_due = 0.0
        self._wake = threading.Event()
        self._is_closing = False
        self._is_done = False
        self._opened = threading.Event()
        self._thread = threading.Thread(target=self._run, name="exchange-log", daemon=True)
        self._thread.start()

    def append(self, record: Mapping[str, Any]) -> None:
        """Record an exchange. Never raises and never waits for the thread, S3 or a lock."""
        try:
            self._append(record)
        except Exception as error:  # noqa: BLE001  the log must not touch a request
            self._lose("defect", 1, error)

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until a file is open; until then records wait in memory."""
        return self._opened.wait(timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, finish the file and end the thread; what is left then is lost."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(timeout_s)
        self._lose_waiting()

    def _lose_waiting(self) -> None:
        left = len(self._waiting)
        self._waiting.clear()
        self._lose("shutdown", left)

    # --- in the caller -------------------------------------------------------------------------------

    def _append(self, record: Mapping[str, Any]) -> None:
        if self._is_closing:
            self._lose("closed", 1)
        elif self._waiting_bytes >= QUEUE_BYTES:
            self._lose("queue_full", 1)
        elif (line := self._encode(record)) is not None and not self._write_now(line):
            # Without a lock: a deque is safe, and the bound need not be exact.
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._wake.set()
            if self._is_done:
                self._lose_waiting()

    def _encode(self, record: Mapping[str, Any]) -> bytes | None:
        try:
            prepared = self._prepare(record)
        except Exception as error:  # noqa: BLE001  what cannot be masked must not be written
            self._lose("masking", 1, error)
            return None
        try:
            line = encoded(prepared)
        except (ValueError, TypeError, RecursionError) as error:
            self._lose("encoding", 1, error)
            return None
        if len(line) > MAX_LINE_BYTES:
            self._lose("too_long", 1)
            return None
        return line

    def _write_now(self, line: bytes) -> bool:
        """Write what waits and the line, unless the thread is at it or the disk is in trouble."""
        if self._trouble or self._monotonic() < self._direct_from:
            return False
        if not self._writing.acquire(blocking=False):
            return False
        try:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            # What other threads have left here meanwhile goes along.
            while self._waiting and self._write_batch():
                pass
        finally:
            self._writing.release()
        if self._waiting:
            self._wake.set()
        return True

    # --- in either, holding the lock -----------------------------------------------------------------

    def _write_batch(self) -> bool:
        """Hand some of what waits to the operating system; what it refuses goes on waiting."""
        if (file := self._file) is None:
            return False
        lines = self._batch()
        began = self._monotonic()
        try:
            file.write(b"".join(lines), len(lines))
        except OSError as error:
            self._say("cannot be written", error)
            return False
        if self._monotonic() - began > SLOW_S:
            self._direct_from = self._monotonic() + CALM_S
        for line in lines:
            self._waiting.popleft()
            self._waiting_bytes -= len(line)
        if file.size >= self._max_file:
            self._wake.set()
        self._on_written(len(lines))
        return True

    def _batch(self) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        for index in range(len(self._waiting)):
            line = self._waiting[index]
            size += len(line)
            if lines and size > BATCH_BYTES:
                break
            lines.append(line)
        return lines

    # --- in the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = 0.0
        while True:
            if pause:
                time.sleep(pause)
            else:
                self._wake.wait(self._tick_s)
            self._wake.clear()
            is_last = self._is_closing
            is_good = self._tried(is_last)
            if is_last:
                self._is_done = True
                return
            pause = 0.0 if is_good else min(max(2 * pause, self._tick_s / 10), self._tick_s)

    def _tried(self, is_last: bool) -> bool:
        try:
            is_good = self._tend(is_last)
        except Exception as error:  # noqa: BLE001  the thread must outlive any trouble
            self._say("is in trouble", error)
            return False
        if is_good and self._trouble:
            log.warning("the exchange log %s works again", self._folder.folder)
            self._trouble = ""
        return is_good

    def _tend(self, is_last: bool) -> bool:
        self._drop_vanished()
        if self._file is None:
            self._file = self._folder.open_next()
            self._opened.set()
        is_good = self._drain()
        if is_last:
            self._replace(None)
        elif self._is_due(self._file):
            self._replace(self._folder.open_next())
        if is_last or self._monotonic() >= self._folder_due:
            self._folder_due = self._monotonic() + FOLDER_S
            self._look_after_folder()
        return is_good

    def _drain(self) -> bool:
        while self._waiting:
            with self._writing:
                if not self._write_batch():
                    return False
        return True

    def _is_due(self, file: OpenLogFile) -> bool:
        # An old empty file is replaced too: its records would lie under a wrong hour in S3.
        age = self._folder.now() - file.name.started.timestamp()
        return file.size >= self._max_file or not -60 <= age < self._max_age_s

    def _replace(self, new: OpenLogFile | None) -> None:
        old, self._file = self._file, new
        with self._writing:
            pass  # nobody is writing to the old one any more
        if old is not None:
            self._folder.finish(old)
            if old.records:
                self._make_room()

    def _drop_vanished(self) -> None:
        file = self._file
        if file is not None and file.has_vanished:
            self._file = None
            with self._writing:
                pass  # nobody is writing to it any more
            self._lose("file_removed", file.records)
            file.records = 0
            self._folder.finish(file)

    def _look_after_folder(self) -> None:
        found = self._folder.recover()
        if found.cut_lines:
            self._lose("killed", found.cut_lines)
        if found.files:
            log.warning("finished %d log files of ended processes", found.files)
        self._make_room()

    def _make_room(self) -> None:
        removed = self._folder.make_room(self._max_disk, self._max_file)
        if removed:
            self._lose("disk_bound", sum(file.records for file in removed))

    # --- telling -------------------------------------------------------------------------------------

    def _lose(self, cause: str, records: int, error: Exception | None = None) -> None:
        try:
            if error is not None:
                # The type alone: the message may quote the record.
                log.debug("record lost (%s): %s", cause, type(error).__name__)
            if records:
                self._on_lost(cause, records)
        except Exception:  # noqa: BLE001, S110  counting must not touch a request either
            pass

    def _say(self, what: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {getattr(error, 'strerror', '') or ''}"
        if reason != self._trouble:
            self._trouble = reason
            log.warning("the exchange log %s %s: %s", self._folder.folder, what, reason)


def encoded(record: Mapping[str, Any]) -> bytes:
    """Return the record as one line of standard JSON; NaN and infinities become null.

    Raises:
        ValueError, TypeError, RecursionError: it cannot be written as JSON.
    """
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):
        text = json.dumps(
            _plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair, as a byte-level tokenizer may leave it: escaped it is still JSON.
        return text.encode("utf-8", "backslashreplace") + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)
