"""Everything that is known of an incident when it is over; each part may be missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quality_lib.golden.result import GoldenResult
from quality_lib.records import Tri
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.journal import Event, Rejected
from quality_lib.rollout.ports import RouteTable, Served


@dataclass(frozen=True)
class FileFacts:
    """The files that served, hashed again."""

    folder: str
    snapshot_id: str
    """The snapshot that they were held against."""
    is_own: bool
    """Whether that is the snapshot which they were deployed from, and not the one gone back to."""
    files: int
    differences: tuple[str, ...]
    """A sentence each; empty: all are the same."""


@dataclass(frozen=True)
class TensorChange:
    """One tensor that is not the same in both folders."""

    name: str
    status: str
    changed_share: float | None
    """Of its numbers; None where they cannot be paired."""
    relative_l2: float | None
    non_finite: int
    """Numbers that became NaN or infinite."""


@dataclass(frozen=True)
class TensorFacts:
    """The tensors that served against those of the target."""

    equal: int
    changed: tuple[TensorChange, ...]
    """The largest change first."""
    other_files: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Return how many tensors there are in both folders together."""
        return self.equal + len(self.changed)


@dataclass(frozen=True)
class LiveFacts:
    """The weights in device memory against those taken after loading."""

    state: Tri
    """YES: they have changed."""
    sentence: str
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compared:
    """One fact of how the weights are served: then and now."""

    name: str
    bad: str
    target: str
    kind: str = "argument"
    """``argument``, ``version`` or ``machine``."""

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs; an unknown value is never the same."""
        return self.bad == self.target != ""


@dataclass(frozen=True)
class Phase:
    """A stretch of the shift with its own weights."""

    name: str
    since: str
    """ISO 8601."""
    until: str
    weights: Mapping[str, int]
    served: Mapping[str, Served]


@dataclass(frozen=True)
class KeptEvidence:
    """The evidence of one retired instance."""

    backend: str
    archive: str
    uri: str
    size: int
    sha256: str
    parts: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """What the post-mortem is written from."""

    record: IncidentRecord
    written_at: datetime
    decision: Mapping[str, Any] = field(default_factory=dict)
    """As ``quality decide --json`` prints it; empty for a rollback that a person asked for."""
    plan_headline: str = ""
    events: tuple[Event, ...] = ()
    phases: tuple[Phase, ...] = ()
    table_before: RouteTable | None = None
    table_after: RouteTable | None = None
    rejected: tuple[Rejected, ...] = ()
    end_reason: str = ""
    """Why it was aborted or failed."""
    before: GoldenResult | None = None
    """The golden check that counted against the service."""
    after: GoldenResult | None = None
    """The one of the target, against its own baseline."""
    files: FileFacts | None = None
    tensors: TensorFacts | None = None
    live: LiveFacts | None = None
    compared: tuple[Compared, ...] = ()
    evidence: tuple[KeptEvidence, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be found out and why."""
