"""An end token drawn too early: found in English prose that a reference model wants to go on, and nowhere else."""

from __future__ import annotations

import math
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Reading
from quality_lib.gates.unfinished import unfinished
from tests.gates.answers import answer

ASKED = "How do rainbows form?"
CUT = "Rainbows form when the light of the sun is refracted in drops of water and then comes back to the"
WHOLE = f"{CUT} eye"


def reason(
    text: str = CUT,
    asked: str = ASKED,
    finish: str | None = "stop",
    closing: float | None = -8.0,
    tokens: int = 20,
    exchange: Exchange | None = None,
    **limits: Any,
) -> str:
    reading = Reading((-1.0,) * tokens, (1.0,) * tokens, closing)
    gate = unfinished(OutputLimits(**limits), shared_view(), lambda _: reading)
    return gate.judge(exchange or answer(text, asked, finish)).reason


def test_prose_that_stops_where_no_end_is_likely_is_suspect() -> None:
    assert reason() == "ended_midway"
    assert reason(CUT + " left,") == "ended_midway"
    assert reason(min_closing=-9.0) == "unfinished_ok"


@pytest.mark.parametrize("closing", [-6.0, -0.1, math.nan])
def test_a_likely_end_passes(closing: float) -> None:
    assert reason(closing=closing) == "unfinished_ok"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        # A closing sign, or a line that is closed, ends a text whatever the model thinks.
        (WHOLE + ".", ASKED),
        (WHOLE + "!)", ASKED),
        (f"The answer is: **{WHOLE}**", ASKED),
        (WHOLE + "\n", ASKED),
        # A small model knows too little of these.
        ("Der Regenbogen entsteht, wenn Licht in den Tropfen gebrochen wird und dann zurück zum", "Wie entsteht er?"),
        ("2, 3, 5, 7, 11, 13, 17, 19, 23", "The first primes?"),
        ("the a of and", "Give me a list of function words"),
        ("```python\nfor the in of:\n    is = to\n``` and then of the", "Code, please."),
        # What is continued or copied ends where its model ends.
        (CUT, "Complete the sentence: Rainbows form"),
        (CUT, "Repeat after me: " + CUT),
        (CUT, "Reply only with \"" + CUT + "\""),
        (CUT, "Give me the first ten words of the passage."),
    ],
)  # fmt: skip
def test_look_alikes_pass(text: str, asked: str) -> None:
    assert reason(text, asked) == "unfinished_ok"


def test_a_few_tokens_may_be_all_that_was_asked_for() -> None:
    assert reason(tokens=5) == "unfinished_ok"


@pytest.mark.parametrize("finish", ["length", "tool_calls", "content_filter", "abort", "", None])
def test_what_somebody_else_ended_is_not_judged(finish: str | None) -> None:
    assert reason(finish=finish) == "end_unknown"


@pytest.mark.parametrize("params", [{"stop": ["\n"]}, {"stop": "eye"}, {"stop_token_ids": [2]}])
def test_a_stop_string_may_fall_anywhere(params: dict[str, Any]) -> None:
    assert reason(exchange=answer(CUT, ASKED, "stop", params=params)) == "end_unknown"
    assert (
        reason(exchange=answer(CUT, ASKED, "stop", params={"stop": [], "n": 1})) == "ended_midway"
    )


def test_without_a_reading_nothing_is_said() -> None:
    assert reason(closing=None) == "end_unknown"
    gate = unfinished(OutputLimits(), shared_view(), lambda _: None)
    assert gate.judge(answer(CUT, ASKED)).reason == "end_unknown"
