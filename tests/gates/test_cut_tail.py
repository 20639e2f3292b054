"""What the limit ended while it said the same without end, and what only looks so."""

from __future__ import annotations

import pytest

from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.cut_tail import cut_tail
from quality_lib.gates.output_limits import OutputLimits
from tests.gates.answers import PROSE, answer


def rows(*said: str) -> str:
    return "\n".join(said)


def numbered(count: int, said: str, start: int = 1) -> str:
    return rows(*(f"{n}. {said}" for n in range(start, start + count)))


FROGS = rows("1. Lions", "2. Bears", numbered(14, "Frogs", 3), "17. Fr")
BAD = {
    "the same entry under running numbers": (FROGS, "List ten animals.", "same_rows"),
    "dashes": (rows(*["- Lions: Lions"] * 9, "- Li"), "Name some animals.", "same_rows"),
    "blank lines between": (rows(*['"Sylvie,\n'] * 9, "S"), "Write an invitation.", "same_rows"),
    "a label and nothing": (rows(*["A:\n"] * 9, "A"), "What is tea?", "few_signs"),
    "a word where code was asked": (rows(*["jimblaw"] * 9, "j"), "Write a bash script.", "same_rows"),
    "numbers that count on": (
        rows(*(f"Premise of {2000 + n}" for n in range(9)), "Prem"), "Write a checklist.",
        "counting_rows",
    ),
    "letters that count on": (
        rows(*(f"{chr(65 + n)}: {2000 + n}" for n in range(12)), "M: 2"), "Write a thank-you note.",
        "counting_rows",
    ),
    "the same phrases in other order": (
        "The fox was a lazy creature, a lazy and lazy creature. No matter how many times he would lie, the fox would "
        "not lie. He was a wolf, a wolf that was just. The fox was a wolf, a wolf that was just. A fox is a lazy creature, "
        "a lazy creature that is a lazy creature, a lazy creature that is", "Tell a story about a fox.",
        "phrases_to_limit",
    ),
    "one emoji": ("🍌" * 36, "Which fruit is yellow?", "sign_tail"),
    "one emoji after a start": (PROSE + "🍌" + "🍢" * 30, "Make a table of fruits.", "sign_tail"),
    "a divider without end": (rows("| Stop | Time |", "|" + "---|" * 40), "A table of stops.", "endless_divider"),
    "zeros and blanks": ("0\n\n0\n\n00\n\n\n0\n的\n0\n\n0\n\n00\n\n0", "Two sentences on Vienna.", "few_signs"),
}  # fmt: skip
HEALTHY = {
    "a list of different things": (numbered(3, "x") + rows("", "4. a", "5. b", "6. c", "7. d"), "List ten."),
    "as many as asked": (numbered(6, "practice scales") + "\n7. pr", "Plan 12 sessions."),
    "repeated because asked": (numbered(20, "I must not talk") + "\n21. I", "Repeat it 100 times."),
    "closing tags": (rows("```html", *["</div>"] * 9, "</"), "Nest ten divs in HTML."),
    "rows of a log": (rows(*(f"12:00:{n:02d} heartbeat ok" for n in range(12)), "12:"), "Simulate a log."),
    "a table": (rows("| h | t |", "|---|---|", *["| 1 | 12 |"] * 14, "| 1"), "Temperatures by hour."),
    "a wide table": (rows("|a|b|c|d|e|", "|---|---|---|---|---|"), "A table with five columns."),
    "numbers": (rows(*map(str, range(60))), "Count up."),
    "zeros that were asked": (rows(*["0 0 0 0 0 0"] * 9), "A zero matrix."),
    "a program": (
        "```python\nclass A:\n    def a(self):\n        return self.a\n    def b(self):\n        return self.b\n"
        "    def c(self):\n        return self.c\n    def d(self):\n        return self.d\n    def e(self):\n        return",
        "A class with five properties.",
    ),
    "a refrain that was asked": ("Row on, row on, the mist is thin, row on, row on, the sea is wide, " * 3 + "row", "A song with a refrain."),
    "emoji that were asked": ("🟩" * 36, "Fill a field with the green square emoji."),
    "a cut sentence": (PROSE[:-8], "Tell me about rivers."),
    "nothing but a start": ("The", "Tell me about rivers."),
}  # fmt: skip


def reason(text: str, prompt: str, finish: str) -> str:
    gate = cut_tail(OutputLimits(), shared_view())
    return gate.judge(answer(text, prompt, finish)).reason


@pytest.mark.parametrize(("text", "prompt", "expected"), BAD.values(), ids=BAD.keys())
def test_a_tail_without_end_is_found(text: str, prompt: str, expected: str) -> None:
    assert reason(text, prompt, "length") == expected


@pytest.mark.parametrize(("text", "prompt", "_"), BAD.values(), ids=BAD.keys())
def test_what_ended_by_itself_is_left_to_others(text: str, prompt: str, _: str) -> None:
    assert reason(text, prompt, "stop") == "cut_tail_ok"


@pytest.mark.parametrize(("text", "prompt"), HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_answer_that_was_cut_passes(text: str, prompt: str) -> None:
    assert reason(text, prompt, "length") == "cut_tail_ok"


def test_the_number_of_rows_is_a_limit() -> None:
    gate = cut_tail(OutputLimits(same_rows=20), shared_view())
    assert gate.judge(answer(FROGS, "List ten animals.", "length")).reason == "cut_tail_ok"
    with pytest.raises(ValueError, match="same_rows"):
        OutputLimits(same_rows=2)
