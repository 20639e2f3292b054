"""Names of exchange log files and of their objects in S3. Pure.

A file is ``<service>-<instance>-<started>-<seq>.jsonl.open`` while it is written and
``…-<seq>-n<records>.jsonl`` when it is finished; the number of records stands in the name so that a
file which must be dropped can be counted without reading it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

OPEN = ".open"

_NAME = re.compile(
    r"(?P<service>[A-Za-z0-9._-]+)-(?P<instance>[A-Za-z0-9._]+)-(?P<started>\d{8}T\d{6}Z)-(?P<seq>\d{6,12})"
    r"(?:-n(?P<records>\d+))?\.jsonl(?P<open>\.open)?"
)


@dataclass(frozen=True)
class LogName:
    """What a file's name says."""

    service: str
    instance: str
    """Unique per process: host, process id and a random part."""
    started: datetime
    """When the file was opened, UTC, whole seconds."""
    seq: int
    records: int | None = None
    """None: the file is still open, or its process died."""

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return what the name says; ``None`` for a file of somebody else."""
        match = _NAME.fullmatch(name)
        if match is None or (match["records"] is None) != (match["open"] is not None):
            return None
        try:
            started = datetime.strptime(match["started"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            return None
        records = int(match["records"]) if match["records"] else None
        return cls(match["service"], match["instance"], started, int(match["seq"]), records)

    def __str__(self) -> str:
        stem = f"{self.service}-{self.instance}-{self.started:%Y%m%dT%H%M%SZ}-{self.seq:06d}"
        return f"{stem}.jsonl{OPEN}" if self.records is None else f"{stem}-n{self.records}.jsonl"

    @property
    def age_order(self) -> tuple[datetime, int, str]:
        """Sort key: the oldest first."""
        return self.started, self.seq, self.instance

    def object_key(self, prefix: str) -> str:
        """Return the key in S3, ``<prefix>/<service>/dt=…/hour=…/<file>.gz``; the same every time."""
        return f"{hour_prefix(prefix, self.service, self.started)}{self}.gz"


def safe_name(name: str, *, joiners: str = "._-") -> str:
    """Return the name with every character that files or keys dislike replaced by ``_``."""
    return re.sub(rf"[^A-Za-z0-9{re.escape(joiners)}]", "_", name)[:80].strip(".") or "_"


def hour_prefix(prefix: str, service: str, hour: datetime) -> str:
    """Return what the keys of one service and hour (UTC) begin with."""
    root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    at = hour.astimezone(UTC)
    return f"{root}{safe_name(service)}/dt={at:%Y-%m-%d}/hour={at:%H}/"
