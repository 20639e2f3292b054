"""Bounds learned from healthy answers hold for further ones, and say how surely."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.bounds_record import bounds_record, parse_bounds
from quality_lib.gates.learn import (
    MIN_PROMPTS,
    HealthyAnswer,
    false_alarm_of,
    learn,
    window_means,
)
from quality_lib.gates.level_stream import StreamMonitor
from quality_lib.gates.stream_limits import StreamLimits

CLEAN = {"stream_clean", "stream_too_short"}


def answer(prompt: int, *, scale: float = 1.0, tokens: int = 96) -> HealthyAnswer:
    draw = random.Random(prompt)
    level = draw.uniform(0.5, 1.5) * scale
    return HealthyAnswer(
        f"case-{prompt}",
        tokens=tokens,
        logprobs=[-draw.expovariate(1 / level) for _ in range(tokens)],
        entropies=[draw.expovariate(1 / level) for _ in range(tokens)],
        similarity=draw.uniform(0.8, 1.0),
        perplexities=[draw.uniform(5, 20)],
    )


def many(count: int = 150) -> list[HealthyAnswer]:
    return [answer(i) for i in range(count)]


def test_bounds_lie_outside_everything_seen() -> None:
    learned = learn(many())
    assert (learned.answers, learned.window, learned.false_alarm) == (150, 32, 0.0198)
    windows = [m for a in many() for m in window_means(a.entropies, 32)]
    assert learned.mean_entropy is not None
    assert learned.mean_entropy.low is not None
    assert learned.mean_entropy.high is not None
    assert 0 < learned.mean_entropy.low < min(windows) < max(windows) < learned.mean_entropy.high
    # The margin is half the way from the median to the extreme: no more than that.
    assert learned.mean_entropy.high < 1.5 * max(windows)
    assert learned.mean_logprob is not None
    assert learned.mean_logprob.low is not None
    assert learned.mean_logprob.high is not None
    assert learned.mean_logprob.low < learned.mean_logprob.high < 0
    assert learned.step_entropy is not None
    assert learned.step_entropy.low is None
    assert learned.similarity is not None
    assert learned.similarity.high is None
    assert learned.perplexity is not None


def test_further_healthy_answers_stay_inside_and_damaged_ones_do_not() -> None:
    learned = learn(many())
    reasons: dict[float, int] = {}
    for scale in (1.0, 4.0):
        for i in range(1000, 1200):
            shown = answer(i, scale=scale)
            monitor = StreamMonitor(StreamLimits(), learned)
            monitor.feed("", entropies=shown.entropies)
            monitor.finish()
            flagged = monitor.verdicts[0].reason not in CLEAN
            reasons[scale] = reasons.get(scale, 0) + flagged
    assert reasons[1.0] <= 2
    assert reasons[4.0] >= 150


@pytest.mark.parametrize(("prompts", "is_learned"), [(0, False), (58, False), (59, True)])
def test_too_few_prompts_teach_nothing(prompts: int, is_learned: bool) -> None:
    learned = learn(many(prompts))
    bands = [learned.mean_logprob, learned.mean_entropy, learned.step_entropy, learned.similarity]
    assert [band is not None for band in bands] == [is_learned] * 4
    assert (learned.false_alarm is not None) is is_learned
    assert learned.answers == prompts


def test_many_answers_to_few_prompts_are_no_more_evidence() -> None:
    few = [answer(i % 20) for i in range(400)]
    assert learn(few).mean_entropy is None


def test_answers_shorter_than_a_window_say_nothing_of_windows() -> None:
    learned = learn([answer(i, tokens=31) for i in range(100)])
    assert learned.mean_entropy is learned.mean_logprob is None
    assert learned.step_entropy is not None


def test_cut_answers_leave_the_longest_length_open() -> None:
    whole = [answer(i, tokens=40 + i) for i in range(100)]
    high = learn(whole).answer_tokens
    assert high is not None
    assert high.high is not None
    assert high.high > 139
    cut = [*whole, HealthyAnswer("cut", tokens=500, is_cut=True)]
    open_ended = learn(cut).answer_tokens
    assert open_ended is not None
    assert open_ended.high is None


def test_odd_numbers_are_left_out() -> None:
    odd = [
        HealthyAnswer(
            str(i),
            logprobs=[None, math.nan, -math.inf] * 30,
            entropies=[math.nan] * 64,
            similarity=math.nan,
        )
        for i in range(100)
    ]
    assert learn(odd) == LearnedBounds(answers=100)


def test_certainty_has_a_bound_only_where_something_was_uncertain() -> None:
    sure = [HealthyAnswer(str(i), entropies=[0.0] * 64) for i in range(100)]
    assert learn(sure).mean_entropy == Range(None, 0.0)


@pytest.mark.parametrize(("prompts", "share"), [(59, 0.05), (149, 0.02), (299, 0.01)])
def test_the_false_alarm_rate_is_wilkss(prompts: int, share: float) -> None:
    assert false_alarm_of(prompts) <= share < false_alarm_of(prompts - 2)
    assert MIN_PROMPTS == 59


def test_the_bound_keeps_its_promise() -> None:
    """Of 300 lots of 59 draws, at least 93 % leave at most 5 % of the population beyond."""
    draw = random.Random(11)
    kept = sum(max(draw.random() for _ in range(59)) >= 0.95 for _ in range(300))
    assert kept >= 0.93 * 300


def test_a_record_comes_back_as_it_was() -> None:
    for bounds in (LearnedBounds(), learn(many()), LearnedBounds(similarity=Range(0.1, None))):
        assert parse_bounds(bounds_record(bounds)) == bounds


GOOD = bounds_record(LearnedBounds())


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], None),
        ({}, "schema"),
        ({**GOOD, "schema": 2}, "schema"),
        ({**GOOD, "mean_entropi": None}, "mean_entropi"),
        ({**GOOD, "window": 0}, "window"),
        ({**GOOD, "window": True}, "window"),
        ({**GOOD, "answers": -1}, "answers"),
        ({**GOOD, "false_alarm": "x"}, "false_alarm"),
        ({**GOOD, "mean_entropy": 3}, "mean_entropy"),
        ({**GOOD, "mean_entropy": {"low": 1}}, "mean_entropy"),
        ({**GOOD, "mean_entropy": {"low": "1", "high": 2}}, "mean_entropy.low"),
        ({**GOOD, "mean_entropy": {"low": 1, "high": math.nan}}, "mean_entropy.high"),
        ({**GOOD, "mean_entropy": {"low": 3, "high": 2}}, "mean_entropy"),
    ],
)
def test_a_wrong_record_is_named_with_file_and_field(data: Any, field: str | None) -> None:
    with pytest.raises(BadInput) as caught:
        parse_bounds(data, "b.json")
    assert (caught.value.file, caught.value.field) == ("b.json", field)
