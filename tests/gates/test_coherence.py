from __future__ import annotations

import math

import pytest

from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.coherence import coherence
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Reading
from tests.gates.answers import PROSE, answer

LEARNED = LearnedBounds(window=16, perplexity=Range(None, 50.0), answers=100)
CONSTANT = LearnedBounds(window=16)
ODD = "-1.s-4 your_-exof-exz.stories of thestories 3-offs-of families 1-4-x_-one. Your_stories4.uper2 win.c4_-1-1.2-"
CZECH = "Listí na stromech žloutne a červená, ráno leží mezi kmeny mlha a na mezích kvete ocún."


def reading(*windows: float, doubt: float | None = None) -> Reading:
    """Return a reading with these perplexities in windows of 16; ``doubt`` None: as surprised as expected."""
    logprobs = [-math.log(window) for window in windows for _ in range(16)]
    return Reading(tuple(logprobs), tuple(-value if doubt is None else doubt for value in logprobs))


def judged(
    read: Reading | None,
    text: str = PROSE,
    prompt: str = "Tell me about rivers.",
    bounds: LearnedBounds = CONSTANT,
) -> tuple[str, str | None]:
    gate = coherence(OutputLimits(), bounds, shared_view(), lambda _exchange: read)
    verdict = gate.judge(answer(text, prompt))
    return verdict.reason, verdict.evidence.get("bound")


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (reading(20.0, 49.0), ("coherence_ok", None)),
        (reading(20.0, 51.0), ("perplexity_high", "learned")),
        # A good head must not hide a dead tail.
        (reading(*[10.0] * 20, 600.0), ("perplexity_very_high", "learned")),
        (reading(), ("perplexity_unknown", None)),
        (None, ("perplexity_unknown", None)),
        (Reading((math.nan,) * 16, (math.nan,) * 16), ("perplexity_very_high", "learned")),
    ],
)
def test_the_worst_window_decides(read: Reading | None, expected: tuple[str, str | None]) -> None:
    assert judged(read, bounds=LEARNED) == expected


@pytest.mark.parametrize(
    ("text", "prompt", "window", "reason"),
    [
        (PROSE, "Tell me about rivers.", 450.0, "coherence_ok"),
        (PROSE, "Tell me about rivers.", 550.0, "perplexity_high"),
        (PROSE, "Tell me about rivers.", 5_500.0, "perplexity_very_high"),
        (CZECH, "Jak vypadá podzim?", 450.0, "coherence_ok"),
        ("anchor basket candle dragon engine feather", "Give me a word list.", 2_400.0, "coherence_ok"),
        ("anchor basket candle dragon engine feather", "Give me a word list.", 2_600.0, "perplexity_high"),
        ("VGhlIGtldHRsZSBpcyBvbi4= " * 2, "Encode it as base64.", 9_000.0, "coherence_ok"),
        # Two witnesses: odd words, and a perplexity that alone says little.
        (ODD, "Films or books?", 120.0, "odd_and_improbable"),
        (ODD, "Films or books?", 100.0, "coherence_ok"),
        (ODD, "Draw something.", 120.0, "coherence_ok"),
        ("1 -186 -0176 -1M.2036 17, 17885 ( 121888 25, 05", "Six by seven?", 120.0, "odd_and_improbable"),
    ],
)  # fmt: skip
def test_the_bound_depends_on_what_the_model_can_know(
    text: str, prompt: str, window: float, reason: str
) -> None:
    assert judged(reading(window, window), text, prompt)[0] == reason


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        # Names and numbers: improbable, and the model knew that it could not know.
        (reading(4.0, 90.0, 4.0, doubt=3.5), PROSE, "coherence_ok"),
        # As improbable, where the model was sure of something else.
        (reading(4.0, 90.0, 4.0, doubt=0.1), PROSE, "excess_high"),
        (reading(4.0, 12.0, 4.0, doubt=0.1), CZECH, "coherence_ok"),
        (Reading((-0.1,) * 40, (2.0,) * 40), PROSE, "coherence_ok"),
    ],
)
def test_surprise_counts_beyond_the_doubt(read: Reading, text: str, reason: str) -> None:
    assert judged(read, text)[0] == reason


@pytest.mark.parametrize(
    ("tokens", "perplexity", "reason"),
    [
        (7, 90_000.0, "perplexity_unknown"),
        (9, 1_400.0, "coherence_ok"),
        (9, 1_600.0, "perplexity_high"),
        (20, 600.0, "perplexity_high"),
    ],
)
def test_short_prose_has_bounds_of_its_own(tokens: int, perplexity: float, reason: str) -> None:
    logprob = -math.log(perplexity)
    read = Reading((logprob,) * tokens, (-logprob,) * tokens)
    assert judged(read, "The pear is for you and the plum is for me.")[0] == reason


def test_a_text_too_short_to_say_anything_of_is_not_judged() -> None:
    assert judged(Reading((-9.0,) * 12, (9.0,) * 12), "Des hob i ned gwusst.")[0] == "coherence_ok"
    assert judged(Reading((-12.0,) * 3, (0.1,) * 3), "42")[0] == "perplexity_unknown"
