"""The partitions of one window put together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quality_lib.errors import BadInput
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits
from quality_lib.scoring.replay import ReplayTotals
from quality_lib.scoring.result import SCHEMA, Depth, PartResult, ScoreResult
from quality_lib.scoring.tally import Kind, Tallies, Tally
from quality_lib.scoring.verdict import judge_window, rates_of
from quality_lib.scoring.worst import Worst

MOST_DUPLICATES = 0.05
"""Share of duplicate entries above which a window's score says so."""


def merge(
    parts: Sequence[PartResult],
    scored_at: str,
    limits: ScoreLimits,
    reading: ReadLimits,
    replay_limits: ReplayLimits,
) -> ScoreResult:
    """Add the partitions of a window up and judge it.

    Raises:
        BadInput: they are not all, and each once, of the same window.
    """
    parts = sorted(parts, key=lambda p: p.index)
    first = _complete(parts)
    counts, replay = Counts(), None
    tallies, worst = Tallies(), Worst()
    for part in parts:
        counts += part.counts
        tallies.include(part.groups, part.reasons)
        worst.include(part.worst)
        if part.replay is not None:
            replay = (replay or ReplayTotals()) + part.replay
    groups = tallies.groups
    whole = next((g.tally for g in groups if g.kind is Kind.SERVICE), Tally())
    return ScoreResult(
        schema=SCHEMA,
        score_id=score_id(first),
        service=first.service,
        depth=first.depth,
        start=first.start,
        end=first.end,
        scored_at=scored_at,
        partitions=first.count,
        counts=counts,
        rates=rates_of(groups, limits),
        reasons=tallies.reasons,
        crashed=whole.crashed,
        requests_flagged=whole.requests_flagged,
        worst=worst.rows,
        replay=replay,
        verdict=judge_window(
            first.service,
            counts,
            groups,
            replay,
            limits,
            reading,
            replay_limits,
            is_deep=first.depth is Depth.DEEP,
        ),
        notes=tuple(
            dict.fromkeys([
                *_of_duplicates(counts),
                *(note for part in parts for note in part.notes),
            ])
        ),
        duration_s=round(sum(part.duration_s for part in parts), 1),
        seen=tuple(seen for part in parts for seen in part.seen),
    )


def _of_duplicates(counts: Counts) -> list[str]:
    """Say that much was left out as duplicates: mostly clients that use one id for many requests."""
    duplicates = counts.dropped.get(DropReason.DUPLICATE, 0)
    if duplicates <= MOST_DUPLICATES * counts.entries:
        return []
    return [
        f"{duplicates:,} of {counts.entries:,} log entries were left out as duplicates (same id and "
        "start): either the log holds entries twice, or clients send one id with many requests."
    ]


def score_id(part: PartResult) -> str:
    """Return the id of a window's score: the same whenever it is scored again."""
    start, end = (t.replace("-", "").replace(":", "")[:15] for t in (part.start, part.end))
    return f"{part.service}-{part.depth.value}-{start}-{end}"


def _complete(parts: Sequence[PartResult]) -> PartResult:
    if not parts:
        raise BadInput("there is no scored partition to put together")
    first = parts[0]
    same = {(p.service, p.depth, p.start, p.end, p.count) for p in parts}
    if len(same) != 1:
        raise BadInput(
            "the partitions belong to different windows", fix="merge one window at a time"
        )
    found = [p.index for p in parts]
    if sorted(found) != list(range(first.count)):
        raise BadInput(f"partitions {found} are not each of {first.count} once")
    return first
