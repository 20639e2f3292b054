"""Level 3 on text: every bad sample is told, every look-alike passes, however it is cut."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.level_stream import StreamMonitor
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.records import Outcome, Verdict
from tests.gates.stream_samples import BAD, HEALTHY, PROSE

CUTS = [1, 5, 64, 1000, 100_000]


def watch(text: str, asked: str = "", cut: int = 5) -> tuple[list[Verdict], StreamMonitor]:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds(), asked=asked)
    told = [monitor.feed(text[i : i + cut]) for i in range(0, len(text), cut)]
    return [v for v in told if v is not None] + list(monitor.finish("stop")), monitor


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("name", "asked", "text", "reason"), BAD, ids=[b[0] for b in BAD])
def test_bad_streams_are_told(name: str, asked: str, text: str, reason: str, cut: int) -> None:
    told, monitor = watch(text, asked, cut)
    assert reason in [v.reason for v in told]
    assert monitor.verdicts[0].outcome in {Outcome.FAILED, Outcome.SUSPECT}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("name", "asked", "text"), HEALTHY, ids=[h[0] for h in HEALTHY])
def test_healthy_look_alikes_pass(name: str, asked: str, text: str, cut: int) -> None:
    told, monitor = watch(text, asked, cut)
    assert told == []
    assert monitor.verdicts[0].outcome in {Outcome.PASSED, Outcome.UNJUDGED}


def test_a_stream_is_told_while_it_runs_and_once() -> None:
    told, _ = watch(PROSE + "let me " * 4000)
    assert [v.reason for v in told] == ["stream_loop"]
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    text = PROSE + "let me " * 4000
    first = next(i for i in range(0, len(text), 10) if monitor.feed(text[i : i + 10]))
    # 24 copies are 168 characters; 200 are needed, and a look is taken every 64.
    assert len(PROSE) + 200 <= first <= len(PROSE) + 300


def test_a_code_loop_is_suspect_at_most() -> None:
    _, monitor = watch("```python\n" + "x = x + 1\n" * 900)
    assert [(v.reason, v.outcome) for v in monitor.verdicts] == [
        ("stream_loop_in_code", Outcome.SUSPECT)
    ]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_fence_may_be_split_over_chunks(cut: int) -> None:
    assert watch("Here:\n```python\n" + "x = x + 1\n" * 200 + "```\nDone.", cut=cut)[0] == []


def test_a_long_good_head_does_not_hide_the_tail() -> None:
    head = " ".join(f"{i} {PROSE}" for i in range(200))
    assert [v.reason for v in watch(head + "!" * 100, cut=50)[0]] == ["stream_loop"]


def test_nothing_is_remembered_beyond_the_tail() -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    for i in range(3000):
        monitor.feed(f"{i} {PROSE}")
    assert len(monitor._text._tail) <= 8192


@settings(max_examples=60)
@given(st.lists(st.text(max_size=80), max_size=40))
def test_any_text_is_taken_and_cutting_never_changes_what_is_judged(pieces: list[str]) -> None:
    whole, _ = watch("".join(pieces), cut=10_000)
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    for piece in pieces:
        monitor.feed(piece)
    monitor.finish(None)
    bad = [v.reason for v in monitor.verdicts if v.outcome is Outcome.FAILED]
    assert set(bad) <= {v.reason for v in whole} | {"stream_loop"}


def test_an_empty_stream_is_not_a_pass() -> None:
    _, monitor = watch("")
    assert [(v.reason, v.outcome) for v in monitor.verdicts] == [
        ("stream_too_short", Outcome.UNJUDGED)
    ]


def test_the_promised_defaults() -> None:
    assert asdict(StreamLimits()) == {
        "reaction": "observe",
        "max_mean_entropy": 6.0,
        "min_mean_entropy": 1e-4,
        "min_mean_logprob": -7.0,
        "bad_windows": 2,
        "confident_windows": 8,
        "max_step_entropy": 6.5,
        "correct_temperature": 0.3,
        "loop_repeats": 24,
        "loop_characters": 200,
        "long_loop_repeats": 8,
        "long_loop_characters": 600,
        "max_period_characters": 600,
        "mark_run_characters": 60,
        "plain_run_characters": 400,
        "structure_loop_characters": 600,
        "row_loop_characters": 1500,
        "fenced_loop_characters": 4000,
        "token_loop_repeats": 24,
        "token_loop_tokens": 64,
        "stutter_pairs": 12,
        "suspicious_run": 4,
        "suspicious_share": 0.25,
        "replacement_characters": 6,
        "whitespace_run": 512,
        "empty_tokens": 256,
        "engine_repeats": 128,
        "engine_max_pattern": 32,
    }


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("reaction", "panic", "observe, stop, correct"),
        ("loop_repeats", 0, "above 0"),
        ("min_mean_logprob", 0.0, "below 0"),
        ("suspicious_share", 1.5, "at most 1"),
        ("engine_repeats", 1, "at least 2"),
        ("min_mean_entropy", 7.0, "below max_mean_entropy"),
    ],
)
def test_limits_refuse_nonsense(field: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StreamLimits(**{field: value})  # type: ignore[arg-type]
