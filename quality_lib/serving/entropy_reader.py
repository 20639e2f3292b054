"""The API server's side of the entropy file: counters for ``/metrics``, entropies for streams."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from quality_lib.serving.entropy_layout import (
    MAGIC,
    RING,
    SIZE,
    SUFFIX,
    EntropyCounts,
    request_key,
    share_folder,
    views,
)

LOOK_AGAIN_S = 2.0
"""How often the folder is looked through for engines that started or went."""
_TRIES = 64
MAX_WAITING = 65_536
"""Entropies kept for one request that nobody takes."""


@dataclass
class _Source:
    path: Path
    header: Any
    ring: Any
    read: int
    """Ring records read so far."""
    last: EntropyCounts = field(default_factory=EntropyCounts)


class EntropyReader:
    """Reads the files of this server's own engines; safe to use from several threads.

    A server is known by its process: the engines name their ancestors. With several API servers
    each reads the same files, and their common parent is the ancestor.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        anchor: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._anchor = anchor or anchor_process()
        self._clock = clock
        self._looked = -LOOK_AGAIN_S
        self._sources: dict[Path, _Source] = {}
        self._gone = EntropyCounts()
        self._waiting: dict[int, list[float]] = {}
        self._lock = threading.Lock()
        self.lost = 0
        """Records that the ring had overwritten before they were read."""

    def counts(self) -> EntropyCounts | None:
        """Return the counters of all engines so far; ``None`` when no engine writes any."""
        with self._lock:
            self._look()
            for source in self._sources.values():
                source.last = _counts(source.header) or source.last
            if not self._sources and self._gone == EntropyCounts():
                return None
            return sum((s.last for s in self._sources.values()), self._gone)

    def follow(self, quality_id: str) -> None:
        """Keep the entropies of the request that carries this id from now on."""
        with self._lock:
            self._look()
            self._drain()
            self._waiting.setdefault(request_key(quality_id), [])

    def take(self, quality_id: str) -> list[float]:
        """Return what came for a followed request since the last time, in order."""
        key = request_key(quality_id)
        with self._lock:
            self._drain()
            if not (values := self._waiting.get(key)):
                return []
            self._waiting[key] = []
            return values

    def leave(self, quality_id: str) -> list[float]:
        """Stop following a request; return what had not been taken."""
        values = self.take(quality_id)
        with self._lock:
            self._waiting.pop(request_key(quality_id), None)
        return values

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked < LOOK_AGAIN_S:
            return
        self._looked = now
        try:
            folder = self._folder or share_folder()
            found = set(folder.glob(f"*{SUFFIX}"))
        except OSError:
            found = set()
        for path in [p for p in self._sources if p not in found]:
            source = self._sources.pop(path)
            self._gone += _counts(source.header) or source.last
        for path in found - self._sources.keys():
            with suppress(OSError, ValueError):
                if (new := _open(path, self._anchor)) is not None:
                    self._sources[path] = new

    def _drain(self) -> None:
        for source in self._sources.values():
            head = int(source.header["head"][0])
            start = max(source.read, head - RING)
            if self._waiting and start < head:
                at = np.arange(start, head) % RING
                records = source.ring[at]
                # What the writer may have overwritten while it was copied is not used.
                behind = max(0, int(source.header["head"][0]) - RING - start)
                self.lost += behind + start - source.read
                self._sort_in(records[behind:])
            source.read = head

    def _sort_in(self, records: Any) -> None:
        wanted = np.isin(records["key"], np.fromiter(self._waiting, dtype=np.uint64))
        for key, value in zip(
            records["key"][wanted].tolist(), records["entropy"][wanted].tolist(), strict=True
        ):
            values = self._waiting[key]
            if len(values) < MAX_WAITING:
                values.append(value)


def anchor_process() -> int:
    """Return the process that the engines descend from."""
    parent = multiprocessing.parent_process()
    return os.getpid() if parent is None or parent.pid is None else parent.pid


def _open(path: Path, anchor: int) -> _Source | None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_size != SIZE:
            return None
        memory = mmap.mmap(handle, SIZE, prot=mmap.PROT_READ)
    finally:
        os.close(handle)
    header, ring = views(memory)
    if int(header["magic"][0]) != MAGIC or anchor not in header["chain"][0].tolist():
        return None
    try:
        created = psutil.Process(int(header["pid"][0])).create_time()
    except psutil.Error:
        return None
    if abs(created - float(header["created"][0])) > 1.0:
        return None
    return _Source(path, header, ring, int(header["head"][0]))


def _counts(header: Any) -> EntropyCounts | None:
    """Return a consistent copy of the counters; ``None`` when the writer never paused."""
    for _ in range(_TRIES):
        before = int(header["sequence"][0])
        copy = header[0].copy()
        if before % 2 == 0 and int(header["sequence"][0]) == before:
            return EntropyCounts(
                steps=int(copy["steps"]),
                rows=int(copy["rows"]),
                nan_rows=int(copy["nan_rows"]),
                corrected_rows=int(copy["corrected"]),
                entropy_sum=float(copy["total"]),
                buckets=tuple(copy["buckets"].tolist()),
            )
    return None


_reader: EntropyReader | None = None


def entropy_reader() -> EntropyReader:
    """Return the reader that all parts of this process share."""
    global _reader
    if _reader is None:
        _reader = EntropyReader()
    return _reader


def read_entropy() -> EntropyCounts | None:
    """Return what this server's engines have counted; ``None`` without our logits processor."""
    return entropy_reader().counts()


__all__ = ["EntropyCounts", "EntropyReader", "entropy_reader", "read_entropy"]
