"""Level 3 on tokens and numbers: suspicious runs, silent loops, stutter, entropy, NaN."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.gate import judge
from quality_lib.gates.level_stream import StreamMonitor, stream_gates
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.gates.stream_reasons import REASONS
from quality_lib.records import Outcome, Verdict
from tests.gates.stream_samples import BAD, HEALTHY, PROSE

PADS = frozenset(range(100, 140))
LEARNED = LearnedBounds(mean_entropy=Range(0.05, 3.0), mean_logprob=Range(-3.0, -0.02), answers=200)
WORDS = PROSE.split()


def found(monitor: StreamMonitor, told: list[Verdict | None]) -> list[tuple[str, Outcome]]:
    return [(v.reason, v.outcome) for v in [*told, *monitor.finish()] if v is not None]


def ids_of(count: int, seed: int = 1) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(1000, 50_000) for _ in range(count)]


TOKENS: list[tuple[str, list[int], list[str]]] = [
    ("healthy", ids_of(400), []),
    ("one pad at the end", [*ids_of(99), 101], []),
    ("pads now and then", [t for i in ids_of(60) for t in (i, i + 1, i + 2, i + 3, i + 4, 101)], []),
    ("a run of pads", [*ids_of(50), 101, 101, 101, 101, *ids_of(50)], ["stream_suspicious_tokens"]),
    ("different reserved", [*ids_of(50), *range(110, 116)], ["stream_suspicious_tokens"]),
    ("every third", [t for i in ids_of(40) for t in (i, i + 1, 103)], ["stream_suspicious_tokens"]),
    ("every token twice", [t for i in ids_of(60) for t in (i, i)], ["stream_stutter"]),
    ("digits twice", [t for i in range(80) for t in (2000 + i % 10,) * 2], []),
    ("a ruler of equal tokens", [*ids_of(40), *[1500] * 90, *ids_of(40)], []),
]  # fmt: skip


@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize(("name", "ids", "reasons"), TOKENS, ids=[t[0] for t in TOKENS])
def test_tokens_with_text(name: str, ids: list[int], reasons: list[str], cut: int) -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds(), PADS)
    told = [
        monitor.feed(WORDS[i % len(WORDS)] + f"{i} ", ids[i : i + cut])
        for i in range(0, len(ids), cut)
    ]
    assert [reason for reason, _ in found(monitor, told)] == reasons


@pytest.mark.parametrize(
    ("ids", "reasons"),
    [
        ([7] * 200, {"stream_loop"}),
        ([7, 8, 9] * 60, {"stream_loop"}),
        (ids_of(200), set()),
        (ids_of(300), {"stream_no_progress"}),
        ([7] * 300, {"stream_loop", "stream_no_progress"}),
    ],
)
def test_tokens_without_text(ids: list[int], reasons: set[str]) -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    told = [monitor.feed("", [i]) for i in ids]
    assert {reason for reason, _ in found(monitor, told)} == reasons


def test_text_that_comes_late_is_progress() -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    told = [
        monitor.feed("" if i % 200 else f"a piece of text, number {i} ", [t])
        for i, t in enumerate(ids_of(2000))
    ]
    assert found(monitor, told) == []


NUMBERS: list[tuple[str, LearnedBounds, str, list[float], list[tuple[str, Outcome]]]] = [
    ("healthy", LearnedBounds(), "entropies", [2.0] * 200, []),
    ("a guess", LearnedBounds(), "entropies", [9.0] * 64, [("stream_entropy_high", Outcome.FAILED)]),
    ("one window", LearnedBounds(), "entropies", [9.0] * 32 + [1.0] * 200, []),
    ("half a stream", LearnedBounds(), "entropies", [9.0] * 31, []),
    ("learned", LEARNED, "entropies", [4.0] * 64, [("stream_entropy_high", Outcome.SUSPECT)]),
    ("not learned", LearnedBounds(), "entropies", [4.0] * 640, []),
    ("both", LEARNED, "entropies", [4.0] * 64 + [9.0] * 64,
     [("stream_entropy_high", Outcome.SUSPECT), ("stream_entropy_high", Outcome.FAILED)]),
    ("sure", LearnedBounds(), "entropies", [1e-6] * 256, [("stream_entropy_low", Outcome.SUSPECT)]),
    ("sure for a while", LearnedBounds(), "entropies", [1e-6] * 200 + [1.0] * 64, []),
    ("surer than learned", LEARNED, "entropies", [0.01] * 256, [("stream_entropy_low", Outcome.SUSPECT)]),
    ("NaN", LearnedBounds(), "entropies", [1.0, math.nan], [("stream_nan_logits", Outcome.FAILED)]),
    ("impossible", LearnedBounds(), "logprobs", [-9999.0] * 64, [("stream_logprob_low", Outcome.FAILED)]),
    ("minus infinity", LearnedBounds(), "logprobs", [-math.inf] * 64, [("stream_logprob_low", Outcome.FAILED)]),
    ("one impossible token", LearnedBounds(), "logprobs", ([-9999.0] + [-1.0] * 63) * 4, []),
    ("unlikely", LEARNED, "logprobs", [-4.0] * 64, [("stream_logprob_low", Outcome.SUSPECT)]),
    ("too likely", LEARNED, "logprobs", [-0.001] * 256, [("stream_logprob_high", Outcome.SUSPECT)]),
    ("likely without a bound", LearnedBounds(), "logprobs", [-0.001] * 256, []),
]  # fmt: skip


@pytest.mark.parametrize("cut", [1, 13, 1000])
@pytest.mark.parametrize(
    ("name", "bounds", "field", "values", "expected"), NUMBERS, ids=[n[0] for n in NUMBERS]
)
def test_numbers(
    name: str,
    bounds: LearnedBounds,
    field: str,
    values: list[float],
    expected: list[tuple[str, Outcome]],
    cut: int,
) -> None:
    monitor = StreamMonitor(StreamLimits(), bounds)
    told = []
    for i in range(0, len(values), cut):
        piece: dict[str, Any] = {field: values[i : i + cut]}
        told.append(monitor.feed(f"word{i} ", **piece))
    assert found(monitor, told) == expected


def test_the_verdict_says_where_its_bound_comes_from() -> None:
    monitor = StreamMonitor(StreamLimits(), LEARNED)
    monitor.feed("", entropies=[4.0] * 64)
    assert monitor.verdicts[0].evidence["bound"] == "learned"
    monitor.feed("", entropies=[9.0] * 64)
    assert monitor.verdicts[0].evidence["bound"] == "constant"


def test_the_engines_own_stop_is_told() -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    monitor.feed(PROSE)
    assert [v.reason for v in monitor.finish("repetition")] == ["stream_engine_repetition"]
    assert monitor.finish("repetition") == ()


@pytest.mark.parametrize(
    "piece",
    [
        (None, None, None, None),
        (3, (), (), ()),
        ("a", ["x"] * 64, (), ()),
        ("a", [-1] * 64, (), ()),
        ("a", [2**40] * 64, (), ()),
        ("a", (), ["x"], ()),
        ("a", (), [None], ()),
        ("a", (), (), [[]]),
    ],
)
def test_odd_data_is_told_and_never_raised(piece: tuple[Any, Any, Any, Any]) -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds(), PADS)
    for _ in range(3):
        assert monitor.feed(*piece) is None
    monitor.finish("stop")
    assert monitor.verdicts[0].outcome is Outcome.UNJUDGED
    monitor.feed("!" * 200)
    assert monitor.verdicts[0].reason == "stream_loop"


def test_suspicious_tokens_are_counted() -> None:
    monitor = StreamMonitor(StreamLimits(), LearnedBounds(), PADS)
    monitor.feed("a\ufffd" + PROSE, [101, 5, 102, *ids_of(64)])
    monitor.finish("stop")
    assert monitor.suspicious_tokens == 3


def test_every_reason_that_is_told_is_in_the_list() -> None:
    codes = {r.code for r in REASONS}
    assert {b[3] for b in BAD} | {r for _, _, reasons in TOKENS for r in reasons} <= codes
    assert len(codes) == len(REASONS)


@pytest.mark.parametrize(("name", "asked", "text", "reason"), BAD, ids=[b[0] for b in BAD])
def test_a_recorded_answer_is_judged_like_a_stream(
    name: str, asked: str, text: str, reason: str
) -> None:
    gates = stream_gates(StreamLimits(), LearnedBounds())
    said = judge(Exchange(prompt=asked, answer=Answer(text)), gates)
    assert reason in said.reasons


def test_recorded_numbers_are_judged_too() -> None:
    gate = stream_gates(StreamLimits(), LEARNED, PADS)[0]
    ids = tuple(ids_of(100))
    cases = {
        "stream_clean": Answer(PROSE, token_ids=ids, logprobs=(-1.0,) * 100),
        "stream_suspicious_tokens": Answer(PROSE, token_ids=(*ids, *[101] * 8)),
        "stream_entropy_high": Answer(PROSE, entropies=(9.0,) * 100),
        "stream_nan_logits": Answer(PROSE, nan_logits=2),
        "stream_no_progress": Answer("", token_ids=tuple(ids_of(300))),
        "stream_too_short": Answer(None),
    }
    for reason, answer in cases.items():
        assert gate.judge(Exchange(answer=answer)).reason == reason
    assert gate.judge(Exchange()).outcome is Outcome.UNJUDGED


def test_recorded_look_alikes_pass() -> None:
    gate = stream_gates(StreamLimits(), LearnedBounds())[0]
    for name, asked, text in HEALTHY:
        verdict = gate.judge(Exchange(prompt=asked, answer=Answer(text)))
        assert verdict.outcome in {Outcome.PASSED, Outcome.UNJUDGED}, name
