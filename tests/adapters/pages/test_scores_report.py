"""The score report: what is said of every kind of window, and that foreign text stays text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from quality_lib.adapters.pages.scores_report import render_scores
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import BadLine, DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.records import Outcome, Summary, Tri
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits
from quality_lib.scoring.merge import merge
from quality_lib.scoring.replay import BadToken, Contradiction, ReplayTotals, RowReplay
from quality_lib.scoring.result import Depth, ScorePoint, ScoreResult
from quality_lib.scoring.worst import ShownReason
from tests.scoring.builders import GOOD, LOW, part


def result(good: int = 80, low: int = 20, **more: Any) -> ScoreResult:
    parts = [part([GOOD] * good + [LOW] * low, **more)]
    return merge(parts, "2026-03-01T00:13:00+00:00", ScoreLimits(), ReadLimits(), ReplayLimits())


def point(number: int, share: float | None = 0.01, summary: str = "healthy") -> ScorePoint:
    return ScorePoint(
        score_id=f"s{number}",
        end=f"2026-02-28T{number:02d}:00:00+00:00",
        depth=Depth.QUICK,
        summary=Summary(summary),
        changed=Tri.UNKNOWN,
        rows=400,
        share=share,
        low=None if share is None else share / 2,
        high=None if share is None else share * 2,
    )


def text(html: str) -> str:
    body = html.split("</style>", 1)[1]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (result(), ["chat is degraded", "20.0%", "loop_only", "of low quality, limit 5%"]),
        (result(100, 0), ["chat is healthy", "Nothing to do.", "No gate found anything."]),
        (result(0, 100), ["chat is failed", "Users are given broken answers."]),
        (result(10, 0), ["chat is inconclusive", "neither good nor bad", "are needed"]),
        (result(0, 0, counts=Counts()), ["chat is inconclusive", "The window holds no log entry."]),
        (
            result(10, 0, counts=Counts(entries=40, scored=10, bad_lines=30,
                   bad_examples=(BadLine("a.jsonl", 7, "is no JSON"),))),
            ["a.jsonl:7", "is no JSON", "Left out: bad line"],
        ),
        (
            result(10, 0, counts=Counts(entries=40, scored=10, dropped={DropReason.REDACTED: 30})),
            ["logged without their text", "Left out: redacted"],
        ),
        (result(100, 0, depth=Depth.DEEP), ["deep pass", "No answer was replayed"]),
        (result(100, 0, depth=Depth.DEEP, notes=("No perplexity.",)), ["No perplexity."]),
    ],
)  # fmt: skip
def test_it_says_what_a_window_was_like(found: ScoreResult, words: list[str]) -> None:
    page = text(render_scores(found, ()))
    for word in words:
        assert word in page


def test_a_replay_shows_the_contradicted_tokens() -> None:
    token = BadToken(5, 20, "x<y", Contradiction.IMPOSSIBLE, -21.5, -0.2, "around x<y it")
    row = RowReplay("req-9", "", "", 60, 60, 3.0, 21.3, 1, (token,))
    replay = ReplayTotals(3, 180, 180, 5.0, 21.3, 1, 1, {"no_token_ids": 2}, (row,))
    page = render_scores(result(100, 0, depth=Depth.DEEP, replay=replay), ())
    for word in ("req-9", "x&lt;y", "impossible token", "-21.50", "2 no token ids", "0.0278 nats"):
        assert word in page


def test_foreign_text_stays_text_and_what_is_invisible_is_shown() -> None:
    evil = "<script>alert(1)</script>\x00\u202e"
    found = result()
    row = replace(
        found.worst[0],
        id=evil,
        text=evil,
        prompt=evil,
        model=evil,
        params=evil,
        reasons=(ShownReason("loop_only", Outcome.FAILED, evil),),
    )
    page = render_scores(replace(found, worst=(row,)), ())
    assert "<script>" not in page
    assert "␀⟨U+202E⟩" in page


def test_the_page_needs_nothing_from_outside() -> None:
    page = render_scores(result(), [point(n) for n in range(5)])
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert "<script" not in page
    assert page == render_scores(result(), [point(n) for n in range(5)])  # the same every time


def test_the_trend_holds_gaps_and_this_window() -> None:
    history = [point(1), point(2, None, "inconclusive"), point(3, 0.2, "degraded")]
    page = render_scores(result(), history)
    assert "The last 4 windows, this one included." in text(page)
    assert "1 inconclusive" in page
    assert "this window" in page
    assert "the trend begins with this one" in render_scores(result(), ())


def test_a_window_published_before_is_not_shown_twice() -> None:
    found = result()
    again = replace(point(1), score_id=found.score_id)
    assert "the trend begins with this one" in render_scores(found, [again])


def test_every_bar_lies_within_its_frame() -> None:
    for found in (result(), result(0, 100), result(100, 0), result(1, 2)):
        page = render_scores(found, ())
        for at, start, wide in re.findall(
            r"--at: ([\d.]+)%\"|--from: ([\d.]+)%; --wide: ([\d.]+)%", page
        ):
            assert 0 <= float(at or 0) <= 100
            assert float(start or 0) + float(wide or 0) <= 100.1
