"""How the engine's entropies lie in the file that the API server reads.

One writer per file: header, counters guarded by a sequence number (odd while they change), and a
ring of (request key, entropy) records whose head only grows. Readers never lock and never write.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS

ID_ARGUMENT = "quality_id"
"""``vllm_xargs`` key of a request: its entropies can be followed by this id."""
CORRECT_ARGUMENT = "quality_correct"
"""``vllm_xargs`` key of a request: ``"off"`` leaves its steps as they are."""

MAGIC = 0x3154504F52544E45  # "ENTROPT1"
RING = 1 << 16
"""Records kept for readers: at 10,000 tracked tokens a second, six seconds."""
SUFFIX = ".entropy"
CHAIN = 8
"""Ancestors that the writer names, itself included; a reader finds its own engine by them."""

HEADER = np.dtype([
    ("magic", "<u8"),
    ("pid", "<i8"),
    ("created", "<f8"),
    ("chain", "<i8", (CHAIN,)),
    ("sequence", "<u8"),
    ("steps", "<u8"),
    ("rows", "<u8"),
    ("nan_rows", "<u8"),
    ("corrected", "<u8"),
    ("total", "<f8"),
    ("buckets", "<u8", (len(ENTROPY_BUCKETS) + 1,)),
    ("head", "<u8"),
])
RECORD = np.dtype([("key", "<u8"), ("entropy", "<f4")], align=True)
OFFSET = 4096
SIZE = OFFSET + RING * RECORD.itemsize


@dataclass(frozen=True)
class EntropyCounts:
    """What the engine has measured since it started; all of it only grows."""

    steps: int = 0
    """Times that a batch was sampled."""
    rows: int = 0
    """Next-token distributions seen, those that held NaN not included."""
    nan_rows: int = 0
    """Distributions whose logits held NaN or infinity."""
    corrected_rows: int = 0
    """Distributions that were drawn from at a lower temperature."""
    entropy_sum: float = 0.0
    """Nats, over ``rows``."""
    buckets: tuple[int, ...] = (0,) * (len(ENTROPY_BUCKETS) + 1)
    """How many of ``rows`` lie in each bucket; not cumulative."""

    def __add__(self, other: EntropyCounts) -> EntropyCounts:
        return EntropyCounts(
            self.steps + other.steps,
            self.rows + other.rows,
            self.nan_rows + other.nan_rows,
            self.corrected_rows + other.corrected_rows,
            self.entropy_sum + other.entropy_sum,
            tuple(a + b for a, b in zip(self.buckets, other.buckets, strict=True)),
        )


def request_key(quality_id: str) -> int:
    """Return the key of a request's records, never 0."""
    return (
        int.from_bytes(hashlib.blake2b(quality_id.encode(), digest_size=8).digest(), "little") or 1
    )


def share_folder() -> Path:
    """Return this user's folder for such files, in memory where the system has it; made on demand.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    memory = Path("/dev/shm")  # noqa: S108  our own folder in it is checked below
    root = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    folder = root / f"quality-entropy-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or folder.is_symlink() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder of this user")
    return folder


def views(memory: Any) -> tuple[Any, Any]:
    """Return header and ring as arrays over mapped memory."""
    header = np.frombuffer(memory, dtype=HEADER, count=1)
    ring = np.frombuffer(memory, dtype=RECORD, count=RING, offset=OFFSET)
    return header, ring
