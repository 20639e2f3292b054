"""The engine's side of the entropy file: written once per step by the process that samples."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS
from quality_lib.serving.entropy_layout import (
    CHAIN,
    MAGIC,
    RING,
    SIZE,
    SUFFIX,
    share_folder,
    views,
)


class EntropyWriter:
    """Adds what each step measured; the file goes away with the process, or with the next start."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or share_folder()
        remove_stale(folder)
        process = psutil.Process()
        self.path = folder / f"{os.getpid()}-{id(self):x}{SUFFIX}"
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(handle, SIZE)
            self._memory = mmap.mmap(handle, SIZE)
        finally:
            os.close(handle)
        self._header, self._ring = views(self._memory)
        chain = [os.getpid(), *(p.pid for p in process.parents())][:CHAIN]
        header = self._header[0]
        header["pid"], header["created"] = os.getpid(), process.create_time()
        header["chain"][: len(chain)] = chain
        header["magic"] = MAGIC
        self._edges = np.asarray(ENTROPY_BUCKETS)
        self._owner = os.getpid()
        # Not atexit: the engine is a child process of multiprocessing, which runs only these.
        Finalize(None, self.close, exitpriority=10)

    def add(self, entropies: Any, keys: Any, corrected: int) -> None:
        """Add one step: entropies of the rows in nats, NaN where the logits held it, and their keys.

        Rows with key 0 are only counted; the others also reach the readers one by one.
        """
        known = entropies[~np.isnan(entropies)]
        header = self._header
        header["sequence"] += 1
        header["steps"] += 1
        header["rows"] += len(known)
        header["nan_rows"] += len(entropies) - len(known)
        header["corrected"] += corrected
        header["total"] += float(known.sum())
        slots = np.searchsorted(self._edges, known)
        header["buckets"][0] += np.bincount(slots, minlength=len(ENTROPY_BUCKETS) + 1).astype(
            np.uint64
        )
        header["sequence"] += 1
        tracked = np.flatnonzero(keys)
        if len(tracked):
            self._append(keys[tracked], entropies[tracked])

    def _append(self, keys: Any, entropies: Any) -> None:
        head = int(self._header["head"][0])
        at = (head + np.arange(len(keys))) % RING
        self._ring["key"][at] = keys
        self._ring["entropy"][at] = entropies
        # Last, so that no reader sees a record before it is whole.
        self._header["head"] = head + len(keys)

    def close(self) -> None:
        """Remove the file; a forked child that inherited this object leaves it alone."""
        if os.getpid() == self._owner:
            self.path.unlink(missing_ok=True)


def remove_stale(folder: Path) -> None:
    """Remove the files of processes that are gone."""
    for file in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError, ValueError):
            if not psutil.pid_exists(int(file.name.partition("-")[0])):
                file.unlink(missing_ok=True)
