"""Partitions put together: complete, once each, and the same as one task would have found."""

from __future__ import annotations

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.records import Summary
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits
from quality_lib.scoring.merge import merge
from quality_lib.scoring.replay import ReplayTotals
from quality_lib.scoring.result import Depth, PartResult, ScoreResult
from tests.scoring.builders import GOOD, LOW, part

AT = "2026-03-01T00:13:00+00:00"


def merged(*parts: PartResult) -> ScoreResult:
    return merge(parts, AT, ScoreLimits(), ReadLimits(), ReplayLimits())


def test_two_partitions_are_judged_as_one_window() -> None:
    found = merged(part([LOW] * 30, 1, 2), part([GOOD] * 70, 0, 2))
    assert (found.whole.judged, found.whole.low) == (100, 30)
    assert found.verdict.summary is Summary.DEGRADED
    assert (found.counts.entries, found.partitions, found.duration_s) == (100, 2, 2.0)
    assert found.seen == ("seen0", "seen1")


def test_the_order_of_the_partitions_changes_nothing() -> None:
    parts = [part([GOOD] * 40 + [LOW] * 5, n, 3) for n in range(3)]
    assert merged(*parts) == merged(*reversed(parts))


def test_the_score_of_a_window_has_one_id_whenever_it_is_made() -> None:
    one, again = merged(part([GOOD] * 60)), merged(part([GOOD] * 60, duration_s=9.0))
    assert one.score_id == again.score_id == "chat-quick-20260301T000000-20260301T001000"
    assert merged(part([GOOD] * 60, depth=Depth.DEEP)).score_id != one.score_id


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [part([GOOD], 0, 2)],
        [part([GOOD], 0, 2), part([GOOD], 0, 2)],
        [part([GOOD], 0, 2), part([GOOD], 1, 2, end="2026-03-01T00:20:00+00:00")],
        [part([GOOD], 0, 2), part([GOOD], 1, 2, service="code")],
    ],
    ids=["none", "missing", "twice", "another window", "another service"],
)
def test_what_is_not_one_whole_window_is_refused(parts: list[PartResult]) -> None:
    with pytest.raises(BadInput):
        merged(*parts)


def test_replay_and_notes_are_put_together() -> None:
    deep = [
        part(
            [GOOD] * 60,
            n,
            2,
            depth=Depth.DEEP,
            replay=ReplayTotals(rows=3, tokens=300),
            notes=("x",),
        )
        for n in range(2)
    ]
    found = merged(*deep)
    assert found.replay is not None
    assert (found.replay.rows, found.replay.tokens) == (6, 600)
    assert found.notes == ("x",)


@pytest.mark.parametrize(("duplicates", "is_told"), [(0, False), (2, False), (900, True)])
def test_many_duplicates_are_told(duplicates: int, is_told: bool) -> None:
    dropped = {DropReason.DUPLICATE: duplicates}
    counts = Counts(objects=1, entries=100 + duplicates, scored=100, sampled=100, dropped=dropped)
    found = merged(part([GOOD] * 100, counts=counts))
    assert any("left out as duplicates" in note for note in found.notes) is is_told
