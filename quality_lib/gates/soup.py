"""Level 4: tokens in a row that make no sentence. Pure.

Judged in windows of words, so that a good head cannot hide a dead tail. Two shapes are told from
sentences without a model: names, digits and marks glued together outside code, and words without
the function words and marks that hold a sentence together. Fluent nonsense needs perplexity.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import code_line_share, is_short_lined, without_code_lines
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.word_kind import FOREIGN, FUNCTION, GLUED, NUMBER, word_kind
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "token_soup",
        Outcome.FAILED,
        "A stretch of the answer is names, digits and marks glued together, and no code.",
        "gates.output.odd_word_share",
        "sglang#1434, TGI#2106, vllm#53029, vllm#44988",
    ),
    Reason(
        "token_soup_some",
        Outcome.SUSPECT,
        "A stretch of the answer has unusually many glued names and few function words.",
        "gates.output.odd_word_share",
        "sglang#1434, vllm#10559",
    ),
    Reason(
        "number_soup",
        Outcome.SUSPECT,
        "A stretch of the answer is numbers for the most part, and nobody asked for numbers.",
        source="vllm#53029",
    ),
    Reason(
        "word_list",
        Outcome.FAILED,
        "A long stretch is words without function words and punctuation, and no list was asked for.",
        "gates.output.function_word_share",
        "tale#88, OpenAI status of February 2024",
    ),
)
WINDOW = 24
STEP = 12
_GLUED = 2
"""Words with digits stuck to them in one window that are hardly chance."""
_SOME = ((0.12, 0.125), (0.16, 0.17))
"""Shares of odd and of function words in a window that together are unusual: healthy prose has next to
no odd words."""
_SOME_OF_OTHERS = ((0.17, 0.09),)
"""The same where letters carry marks: such languages have fewer function words."""
_NUMBERS = 0.45
"""Share of numbers in a window that is no sentence any more."""
_MATHEMATICS = re.compile(r"[\u2200-\u22ff\u21d0-\u21d5\u2192\u27f6]")
_MARKED = 0.1
"""Share of words before a comma or full stop, up to which words are a list without punctuation."""
_LEAST = 10
"""Words below which nothing is said."""


def soup(limits: OutputLimits, view: View) -> Gate:
    """Fail stretches that no language writes."""

    def look(answer: AnswerView) -> Verdict | None:
        if len(answer.text) < limits.min_characters or answer.is_structured:
            return None
        if _first(answer, answer.tokens, answer.kinds, limits) is None:
            return None
        # Code without a fence looks like soup, so what was found must stand without it too.
        tokens = without_code_lines(answer.prose).split()
        return _first(answer, tokens, "".join(map(word_kind, tokens)), limits)

    return output_gate("soup", view, look, REASONS)


def _first(
    answer: AnswerView, tokens: list[str], kinds: str, limits: OutputLimits
) -> Verdict | None:
    small = kinds.lower()
    if len(kinds) < _LEAST or small.count(FOREIGN) > 0.3 * len(kinds):
        return None
    enough = 0.25 * min(WINDOW, len(kinds))
    is_plain = GLUED not in small and small.count(NUMBER) < 0.5 * _NUMBERS * WINDOW
    for start in _starts(len(kinds)):
        # Nearly every window is running text with its function words: one count settles it.
        if is_plain and small.count(FUNCTION, start, start + WINDOW) > enough:
            continue
        verdict = _window(_Window(answer, tokens, kinds, start), limits)
        if verdict is not None:
            return verdict
    return None


class _Window(NamedTuple):
    answer: AnswerView
    tokens: list[str]
    kinds: str
    start: int

    def count(self, kind: str) -> int:
        """Count a kind, with or without a mark behind it."""
        part = self.kinds[self.start : self.start + WINDOW]
        return part.count(kind) + part.count(kind.upper())

    @property
    def text(self) -> str:
        """The words of the window."""
        return " ".join(self.tokens[self.start : self.start + WINDOW])

    @property
    def size(self) -> int:
        """Words in the window."""
        return min(WINDOW, len(self.kinds) - self.start)


def _starts(words: int) -> list[int]:
    """Windows over the whole text, the last one flush with its end; a shorter one for the very end."""
    if words <= WINDOW:
        return [0]
    return [*range(0, words - WINDOW, STEP), words - WINDOW]


def _window(window: _Window, limits: OutputLimits) -> Verdict | None:
    size, function, glued = window.size, window.count("f"), window.count("g")
    odd = window.count("o") + 2 * glued
    if glued >= _GLUED:
        return _soup(window, odd / size, function / size, sure=glued > _GLUED)
    if odd >= limits.odd_word_share * size and function <= 0.25 * size:
        return _soup(window, odd / size, function / size, sure=function <= 0.2 * size)
    pairs = _SOME if window.text.isascii() else _SOME_OF_OTHERS
    is_some = any(odd >= some * size and function <= few * size for some, few in pairs)
    if is_some and not is_short_lined(window.answer.prose):
        return _soup(window, odd / size, function / size, sure=False)
    numbers = window.count(NUMBER)
    if numbers + odd >= _NUMBERS * size and numbers >= 0.5 * _NUMBERS * size:
        return _numbers(window, numbers / size)
    words = window.count("w") + window.count("n") + window.count("o")
    if function <= limits.function_word_share * size and words >= 0.72 * size and size >= 14:
        return _list(window, function / size)
    return None


def _soup(window: _Window, odd: float, function: float, *, sure: bool) -> Verdict | None:
    wishes = window.answer.wishes
    if wishes.nonsense or _is_code(window.answer):
        return None
    if wishes.code and is_short_lined(window.answer.prose):
        return None
    sentence = f"From word {window.start} on {odd:.0%} odd and {function:.0%} function words."
    evidence = _evidence(window, odd_share=round(odd, 3), function_share=round(function, 3))
    if sure and not wishes.code:
        return failed("token_soup", sentence, **evidence)
    return suspect("token_soup_some", sentence, **evidence)


def _list(window: _Window, function: float) -> Verdict | None:
    answer = window.answer
    part = window.kinds[window.start : window.start + WINDOW]
    marked = sum(map(str.isupper, part))
    if function and not window.text.isascii():
        # Languages with many endings use few small words, and of many of them few are known here.
        return None
    if marked > _MARKED * len(part) or is_short_lined(answer.prose) or _is_code(answer):
        return None
    wishes = answer.wishes
    if wishes.word_list or wishes.nonsense or wishes.languages:
        return None
    return failed(
        "word_list",
        f"{function:.0%} function words from word {window.start} on.",
        **_evidence(window, function_share=round(function, 3)),
    )


def _numbers(window: _Window, share: float) -> Verdict | None:
    answer = window.answer
    wishes = answer.wishes
    if wishes.digits or wishes.word_list or wishes.nonsense or wishes.code or wishes.drawing:
        return None
    if is_short_lined(answer.prose) or _is_code(answer):
        return None
    return suspect(
        "number_soup",
        f"{share:.0%} numbers from word {window.start} on.",
        **_evidence(window, number_share=round(share, 3)),
    )


def _is_code(answer: AnswerView) -> bool:
    """Whether the text is code, or mathematics without formula marks."""
    if not answer.is_ascii and len(_MATHEMATICS.findall(answer.text)) >= 3:
        return True
    return code_line_share(answer.plain) >= 0.4


def _evidence(window: _Window, **numbers: float) -> dict[str, object]:
    offset = window.answer.prose.find(window.tokens[window.start])
    return {"word": window.start, "start": offset, "piece": snippet(window.text), **numbers}
