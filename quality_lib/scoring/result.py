"""What scoring a partition gives, and what the partitions of a window give together. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from quality_lib.drift.rate import Rate
from quality_lib.exchanges.sampling import Counts
from quality_lib.records import Summary, Tri, Verdict
from quality_lib.scoring.replay import ReplayTotals
from quality_lib.scoring.tally import Group, Kind, ReasonCount
from quality_lib.scoring.worst import ShownRow

SCHEMA = 1
"""Raised when the stored form changes so that an older release could not read it."""


class Depth(StrEnum):
    """How much is asked of each answer."""

    QUICK = "quick"
    """Gates without a model, on many rows."""
    DEEP = "deep"
    """Similarity, reference perplexity and replay besides, on fewer rows."""


@dataclass(frozen=True)
class PartResult:
    """One partition, scored."""

    schema: int
    service: str
    depth: Depth
    start: str
    end: str
    """The window, ISO 8601."""
    index: int
    count: int
    counts: Counts
    groups: tuple[Group, ...]
    reasons: tuple[ReasonCount, ...]
    worst: tuple[ShownRow, ...]
    replay: ReplayTotals | None
    notes: tuple[str, ...]
    """What was not done and why, for people."""
    seen: tuple[str, ...]
    """What the reader wants to find in the next watermark."""
    duration_s: float


@dataclass(frozen=True)
class GroupRate:
    """The low-quality rate of one group."""

    kind: Kind
    name: str
    rows: int
    judged: int
    low: int
    suspect: int
    rate: Rate | None
    suspect_rate: Rate | None


@dataclass(frozen=True)
class ScoreVerdict:
    """The judgement of a window: is quality low, and is what serves still the reference?"""

    summary: Summary
    changed: Tri
    reasons: tuple[Verdict, ...]
    """The worst first."""
    headline: str

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to tell anybody."""
        return self.summary is Summary.HEALTHY and self.changed is not Tri.YES

    @property
    def is_bad(self) -> bool:
        """Whether bad quality or another model was found."""
        return self.summary in {Summary.DEGRADED, Summary.FAILED} or self.changed is Tri.YES


@dataclass(frozen=True)
class ScoreResult:
    """A window, scored and judged: what is kept, published and reported."""

    schema: int
    score_id: str
    """Follows from service, depth and window, so that scoring again is publishing again."""
    service: str
    depth: Depth
    start: str
    end: str
    scored_at: str
    partitions: int
    counts: Counts
    rates: tuple[GroupRate, ...]
    """The whole service first."""
    reasons: tuple[ReasonCount, ...]
    crashed: int
    """Rows with a gate that crashed."""
    requests_flagged: int
    worst: tuple[ShownRow, ...]
    replay: ReplayTotals | None
    verdict: ScoreVerdict
    notes: tuple[str, ...]
    duration_s: float
    """Work of all partitions together."""
    seen: tuple[str, ...] = field(default=(), repr=False)

    @property
    def whole(self) -> GroupRate:
        """Return the rate of the whole service."""
        return self.rates[0]


@dataclass(frozen=True)
class ScorePoint:
    """One earlier score, for the trend."""

    score_id: str
    end: str
    depth: Depth
    summary: Summary
    changed: Tri
    rows: int
    share: float | None
    low: float | None
    high: float | None
    start: str = ""
    """Of the window, ISO 8601; empty in scores of older releases."""
    effective_rows: float | None = None
    """As in ``Rate``; None in scores of older releases."""


def empty_rate(kind: Kind = Kind.SERVICE, name: str = "") -> GroupRate:
    """Return the rate of a group without rows."""
    return GroupRate(kind, name, 0, 0, 0, 0, None, None)


def by_cause(counts: Counts) -> Mapping[str, int]:
    """Return how many entries were left out, by cause, the most frequent first."""
    found = {str(reason.value): n for reason, n in counts.dropped.items() if n}
    if counts.bad_lines:
        found["bad_line"] = counts.bad_lines
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
