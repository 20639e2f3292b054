"""The verdict over a window, as a table: no data is never a pass, unreadable data never bad quality."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import BadLine, DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.records import Outcome, Summary, Tri
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits
from quality_lib.scoring.replay import ReplayTotals
from quality_lib.scoring.result import ScoreVerdict
from quality_lib.scoring.tally import Group, Kind
from quality_lib.scoring.verdict import judge_window, rates_of
from tests.scoring.builders import group


def counts(rows: int, **more: Any) -> Counts:
    return Counts(**{"objects": 1, "entries": rows, "scored": rows, "sampled": rows, **more})


def verdict(
    *groups: Group,
    read: Counts | None = None,
    replay: ReplayTotals | None = None,
    deep: bool = False,
) -> ScoreVerdict:
    rows = sum(g.tally.rows for g in groups if g.kind is Kind.SERVICE)
    return judge_window(
        "chat",
        read or counts(rows),
        groups,
        replay,
        ScoreLimits(),
        ReadLimits(),
        ReplayLimits(),
        is_deep=deep,
    )


@pytest.mark.parametrize(
    ("rows", "low", "summary"),
    [
        (400, 0, "healthy"),
        (400, 4, "healthy"),  # one percent, as healthy services have
        (400, 20, "healthy"),  # exactly the limit
        (400, 26, "healthy"),  # above it, not beyond chance
        (400, 36, "degraded"),
        (400, 100, "degraded"),
        (400, 140, "failed"),
        (400, 400, "failed"),
        (50, 9, "degraded"),
        (50, 8, "healthy"),
        (49, 49, "inconclusive"),  # the minimum sample stands before everything
        (49, 0, "inconclusive"),
        (0, 0, "inconclusive"),
    ],
)
def test_the_rate_decides_on_enough_answers_beyond_chance(
    rows: int, low: int, summary: str
) -> None:
    found = verdict(group(rows, low), read=counts(max(rows, 1)))
    assert found.summary is Summary(summary)
    assert found.is_good is (summary == "healthy")
    assert found.is_bad is (summary in {"degraded", "failed"})
    assert "chat" in found.headline


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (Counts(), "no_data"),
        (counts(400, entries=1000, bad_lines=600), "too_many_bad_lines"),
        (counts(400, entries=422, bad_lines=22), "too_many_bad_lines"),
        (counts(400, entries=1000, dropped={DropReason.REDACTED: 600}), "redacted"),
        (counts(0, entries=50, dropped={DropReason.OWN_PROBE: 50}), "too_few_rows"),
        (counts(0, entries=900, dropped={DropReason.REDACTED: 900}), "redacted"),
        (counts(0, entries=90, dropped={DropReason.FAILURE: 90}), "too_few_rows"),
    ],
)
@pytest.mark.parametrize("low", [0, 300])
def test_a_log_that_gives_no_picture_is_inconclusive_whatever_the_rest_says(
    read: Counts, reason: str, low: int
) -> None:
    found = verdict(group(read.scored, min(low, read.scored)), read=read)
    assert found.summary is Summary.INCONCLUSIVE
    assert found.reasons[0].reason == reason
    assert not found.is_good
    assert not found.is_bad


@pytest.mark.parametrize(
    ("read", "rows"),
    [
        (counts(400, entries=420, bad_lines=20), 400),  # 4.8 %
        (counts(400, entries=700, dropped={DropReason.REDACTED: 300}), 400),
        (counts(400, entries=9400, dropped={DropReason.CACHE_HIT: 9000}), 400),
    ],
)
def test_what_is_left_out_with_reason_does_not_spoil_the_rest(read: Counts, rows: int) -> None:
    assert verdict(group(rows, 2), read=read).summary is Summary.HEALTHY


def test_the_first_bad_line_is_told() -> None:
    read = counts(10, entries=30, bad_lines=20, bad_examples=(BadLine("a.jsonl", 3, "no JSON"),))
    assert "no JSON" in verdict(group(10, 0), read=read).headline


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"judged": 150}, "mostly_unjudged"), ({"crashed": 40}, "gates_crashed")],
)
def test_a_broken_checker_is_no_pass(more: dict[str, Any], reason: str) -> None:
    found = verdict(group(400, 0, **more))
    assert (found.summary, found.reasons[0].reason) == (Summary.INCONCLUSIVE, reason)


def test_what_a_half_broken_checker_did_prove_is_told() -> None:
    assert verdict(group(400, 80, crashed=40)).summary is Summary.DEGRADED


def test_a_group_that_is_bad_alone_does_not_hide_in_the_whole() -> None:
    groups = [
        group(1000, 15),
        group(980, 0, Kind.INSTANCE, "http://a"),
        group(20, 15, Kind.INSTANCE, "http://b"),
    ]
    found = verdict(*groups)
    assert found.summary is Summary.DEGRADED
    assert found.reasons[0].reason == "group_low_quality"
    assert "http://b" in found.headline


@pytest.mark.parametrize(("rows", "low"), [(9, 9), (20, 7)])
def test_a_group_too_small_or_only_unlucky_is_no_reason(rows: int, low: int) -> None:
    groups = [group(1000, low), group(rows, low, Kind.MODEL, "rare")]
    assert verdict(*groups).summary is Summary.HEALTHY


def test_a_change_without_worse_answers_is_bad_all_the_same() -> None:
    replay = ReplayTotals(rows=10, tokens=800, compared=800, difference_sum=400.0)
    found = verdict(group(400, 0), replay=replay, deep=True)
    assert (found.summary, found.changed) == (Summary.HEALTHY, Tri.YES)
    assert found.is_bad
    assert not found.is_good
    assert found.reasons[0].reason == "replay_logprobs_moved"


def test_a_deep_pass_without_a_reference_says_so_and_a_quick_one_does_not() -> None:
    deep, quick = verdict(group(400, 0), deep=True), verdict(group(400, 0))
    assert [v.reason for v in deep.reasons] == ["replay_not_done", "quality_good"]
    assert deep.is_good
    assert [v.reason for v in quick.reasons] == ["quality_good"]


def test_an_inconclusive_deep_pass_leads_with_the_log_and_not_with_the_replay() -> None:
    found = verdict(group(10, 0), deep=True)
    assert "10 answers could be judged" in found.headline


def test_the_rates_of_an_empty_window_still_hold_the_service() -> None:
    (whole,) = rates_of((), ScoreLimits())
    assert (whole.kind, whole.rows, whole.rate) == (Kind.SERVICE, 0, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"alert_rate": 0.0},
        {"alert_rate": 0.3, "failed_rate": 0.2},
        {"min_rows": 0},
        {"confidence": 1.0},
        {"max_crashed_share": 1.5},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ScoreLimits(**wrong)  # type: ignore[arg-type]


def test_every_reason_speaks_in_a_sentence() -> None:
    for found in (verdict(group(400, 0)), verdict(group(400, 200)), verdict(group(4, 0))):
        for reason in found.reasons:
            assert reason.sentence.endswith(".")
            assert reason.outcome in Outcome


@pytest.mark.parametrize(
    ("gone", "summary", "reason"),
    [
        (0, "healthy", "quality_good"),
        (1, "healthy", "quality_good"),
        (2, "inconclusive", "objects_gone"),
    ],
)
def test_objects_that_vanished_are_answers_nobody_has_seen(
    gone: int, summary: str, reason: str
) -> None:
    """Each is one bad line only, however many answers it held."""
    found = verdict(group(200, 0), read=counts(200, objects=20, gone=gone, bad_lines=gone))
    assert (found.summary, found.reasons[0].reason) == (Summary(summary), reason)
