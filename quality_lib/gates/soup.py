"""Level 4: tokens in a row that make no sentence. Pure.

Judged in windows of words, so that a good head cannot hide a dead tail. Two shapes are told from
sentences without a model: names, digits and marks glued together outside code, and words without
the function words and marks that hold a sentence together. Fluent nonsense needs perplexity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.layout import (
    without_code_lines,
)
from quality_lib.gates.output_gate import failed, output_gate, snippet, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.word_kind import FOREIGN, FUNCTION, GLUED, NAME, NUMBER, ODD, WORD
from quality_lib.gates.word_signs import kinds_of
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
        "mark_soup",
        Outcome.SUSPECT,
        "A third of the answer or more is marks, and it is no code, drawing or table.",
        source="vllm#13035, vllm#53029",
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
_MANY_MARKS = 0.33
"""Share of marks that no sentence has; healthy prose has 0.03 to 0.08."""
_MARK_BYTES = b"-,.;:!?'\"()[]{}/\\+&<>$%@^"
# Marks of Markdown, tables and forms are left out: * _ | # = ~ and backticks.
_SAME = re.compile(r"([^\w\s])\1{2,}")
_GLUED = 2
"""Words with digits stuck to them in one window that are hardly chance."""
_SOME = ((0.12, 0.125), (0.16, 0.17))
"""Shares of odd and of function words in a window that together are unusual: healthy prose has next to
no odd words."""
_SOME_OF_OTHERS = ((0.17, 0.09),)
"""The same where letters carry marks: such languages have fewer function words."""
_LEAST_SOME = 0.12
_NUMBERS = 0.45
"""Share of numbers in a window that is no sentence any more."""
_MATHEMATICS = re.compile(r"[\u2200-\u22ff\u21d0-\u21d5\u2192\u27f6]")
_NAMED = 0.15
"""Share of names above which numbers belong to what is named, as in a list of ports."""
_DIGITS = re.compile(r"\d+")
_TANGLE = re.compile(r"(?<![^\s\w])[-_.,;:]{4,}(?![^\s\w])")
_TANGLED = 4
"""Changes from one mark to another in a run that no ellipsis, dash or ruler has."""
_WELL_FORMED = re.compile(
    r"[\"'`(\[{<*$@~#+=./-]*\w[\w$]*(?:(?:[./:@+=~%#,&?!*-]|::|->|=>|//|--|=\W{0,2}|/\W?)[\w$]+)*[/]*(?:\([\w, .]*\))?[\"'`)\]}>*.,:;/!?]*"
    r"|[\[\](){}<>|]+[;,]?|\w[^\s\w]{1,3}\w|<!--|-->"
)
"""Paths, dotted and joined names, options, addresses, versions, dates, assignments, calls."""
_WELL_FORMED_SHARE = 0.6
_MARKED = 0.1
"""Share of words before a comma or full stop, up to which words are a list without punctuation."""
_LEAST = 10
"""Words below which nothing is said."""
_LEAST_LIST = 14
_LETTERS = 3
_WORDS = 0.72
"""Share of words with a meaning of their own from which a stretch is a list of them."""


def soup(limits: OutputLimits, view: View) -> Gate:
    """Fail stretches that no language writes."""

    def look(answer: AnswerView) -> Verdict | None:
        if len(answer.text) < limits.min_characters or answer.is_structured:
            return None
        prose = answer.prose
        marks = _marks_in(prose)
        if marks > 0.1 * len(prose) and _mark_share(prose) >= _MANY_MARKS:
            verdict = _marks(answer)
            if verdict is not None:
                return verdict
        if marks > 0.1 * len(prose):
            verdict = _tangles(answer)
            if verdict is not None:
                return verdict
        if _first(answer, answer.tokens, answer.kinds, limits) is None:
            return None
        # Code without a fence looks like soup, so what was found must stand without it too.
        tokens = without_code_lines(answer.prose).split()
        return _first(answer, tokens, kinds_of(tokens), limits)

    return output_gate("soup", view, look, REASONS)


def _marks_in(prose: str) -> int:
    """Count ASCII marks; over bytes, for that is many times faster where letters are not ASCII."""
    written = prose.encode("utf-8", "replace")
    return len(written) - len(written.translate(None, _MARK_BYTES))


def _mark_share(prose: str) -> float:
    """Return the share of ASCII marks among all that is no blank."""
    written = len("".join(prose.split()))
    return _marks_in(prose) / written if written else 0.0


def _marks(answer: AnswerView) -> Verdict | None:
    wishes = answer.wishes
    if wishes.drawing or wishes.code or wishes.nonsense or wishes.digits or _is_code(answer):
        return None
    if answer.is_laid_out and any(map(str.isalnum, answer.prose)):
        # Lists of addresses, versions, dates and hashes.
        tokens = answer.tokens
        if sum(_WELL_FORMED.fullmatch(token) is not None for token in tokens) >= 0.9 * len(tokens):
            return None
    # Rulers, leaders and dots for what is left out are one mark each.
    share = _mark_share(_SAME.sub(r"\1", answer.prose))
    if share < 0.8 * _MANY_MARKS or not answer.tokens:
        return None
    return suspect(
        "mark_soup",
        f"{share:.0%} of the answer are marks.",
        share=round(share, 3),
        start=answer.prose.find(answer.tokens[0]),
    )


def _tangles(answer: AnswerView) -> Verdict | None:
    """Find runs of different marks in turn, as ``-.-__-,--``, which neither rulers nor sentences have."""
    found = [m for m in _TANGLE.finditer(answer.prose) if len(_SAME.sub(r"\1", m[0])) >= _TANGLED]
    if len({m[0] for m in found}) < 2:
        return None
    wishes = answer.wishes
    if wishes.drawing or wishes.code or wishes.nonsense or wishes.digits:
        return None
    return suspect(
        "mark_soup",
        f"{len(found)} tangles of marks such as {snippet(found[0][0])!r}.",
        start=found[0].start(),
        tangles=len(found),
    )


def _first(
    answer: AnswerView, tokens: list[str], kinds: str, limits: OutputLimits
) -> Verdict | None:
    if len(kinds) < _LEAST:
        return None
    small = kinds.lower()
    if small.count(FOREIGN) > 0.3 * len(kinds):
        return None
    for start in _odd_windows(small, limits):
        verdict = _window(_Window(answer, tokens, kinds, small, start), limits)
        if verdict is not None:
            return verdict
    return None


def _odd_windows(small: str, limits: OutputLimits) -> Iterator[int]:
    """Give the windows in which something may be found: in nearly every text none, and few counts tell."""
    size = min(WINDOW, len(small))
    enough, many = 0.25 * size, 0.5 * _NUMBERS * size
    least_odd = min(limits.odd_word_share, _LEAST_SOME) * size
    few, most_numbers = limits.function_word_share * size, _NUMBERS * size
    is_plain = GLUED not in small and small.count(NUMBER) < many
    count = small.count
    for start in _starts(len(small)):
        end = start + WINDOW
        function = count(FUNCTION, start, end)
        if is_plain and function > enough:
            continue
        glued, numbers = count(GLUED, start, end), count(NUMBER, start, end)
        odd = count(ODD, start, end) + 2 * glued
        if (
            glued >= _GLUED
            or (numbers >= many and numbers + odd >= most_numbers)
            or (function <= enough and odd >= least_odd)
            or (function <= few and _are_words(small, start, size))
        ):
            yield start


class _Window(NamedTuple):
    answer: AnswerView
    tokens: list[str]
    kinds: str
    small: str
    """The kinds without what tells of a mark behind them."""
    start: int

    def count(self, kind: str) -> int:
        """Count a kind, with or without a mark behind it."""
        return self.small.count(kind, self.start, self.start + WINDOW)

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
    count, start, end = window.small.count, window.start, window.start + WINDOW
    size, function, glued = window.size, count(FUNCTION, start, end), count(GLUED, start, end)
    odd = count(ODD, start, end) + 2 * glued
    if glued >= _GLUED:
        return _soup(window, odd / size, function / size, sure=glued > _GLUED)
    if odd >= limits.odd_word_share * size and function <= 0.25 * size:
        return _soup(window, odd / size, function / size, sure=function <= 0.2 * size)
    if _is_some(window, odd / size, function / size) and not window.answer.is_short_lined:
        return _soup(window, odd / size, function / size, sure=False)
    numbers = count(NUMBER, start, end)
    if numbers + odd >= _NUMBERS * size and numbers >= 0.5 * _NUMBERS * size:
        return _numbers(window, numbers / size)
    if function > limits.function_word_share * size:
        return None
    return _list(window, function / size) if _are_words(window.small, start, size) else None


def _are_words(small: str, start: int, size: int) -> bool:
    """Whether nearly all of a window is words with a meaning of their own."""
    if size < _LEAST_LIST:
        return False
    end = start + size
    words = sum(small.count(kind, start, end) for kind in (WORD, NAME, ODD))
    return words >= _WORDS * size


def _is_some(window: _Window, odd: float, function: float) -> bool:
    if odd < _LEAST_SOME:
        return False
    is_ascii = window.answer.is_ascii or window.text.isascii()
    pairs = _SOME if is_ascii else _SOME_OF_OTHERS
    return any(odd >= some and function <= few for some, few in pairs)


def _soup(window: _Window, odd: float, function: float, *, sure: bool) -> Verdict | None:
    wishes = window.answer.wishes
    if wishes.nonsense or _is_code(window.answer):
        return None
    if wishes.code and window.answer.is_short_lined:
        return None
    laid_out = window.answer.is_laid_out
    if (laid_out or wishes.code) and _is_technical(window):
        return None
    sentence = f"From word {window.start} on {odd:.0%} odd and {function:.0%} function words."
    evidence = _evidence(window, odd_share=round(odd, 3), function_share=round(function, 3))
    if sure and not wishes.code and not laid_out:
        return failed("token_soup", sentence, **evidence)
    return suspect("token_soup_some", sentence, **evidence)


def _is_technical(window: _Window) -> bool:
    """Whether nearly all that looks odd is a well-formed path, name, address, version or number."""
    part = slice(window.start, window.start + WINDOW)
    odd = [
        token
        for token, kind in zip(window.tokens[part], window.small[part], strict=True)
        if kind in {ODD, GLUED}
    ]
    good = sum(_WELL_FORMED.fullmatch(token) is not None for token in odd)
    return good >= _WELL_FORMED_SHARE * len(odd)


def _list(window: _Window, function: float) -> Verdict | None:
    answer = window.answer
    part = window.kinds[window.start : window.start + WINDOW]
    marked = sum(map(str.isupper, part))
    if function and not window.text.isascii():
        # Languages with many endings use few small words, and of many of them few are known here.
        return None
    if marked > _MARKED * len(part) or answer.is_short_lined or _is_code(answer):
        return None
    if max(map(len, window.tokens[window.start : window.start + WINDOW])) <= _LETTERS:
        return None  # an alphabet, initials, notes
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
    if window.count(NAME) > _NAMED * window.size or answer.is_short_lined:
        return None
    wishes = answer.wishes
    if wishes.digits or wishes.word_list or wishes.nonsense or wishes.code or wishes.drawing:
        return None
    if _is_code(answer):
        return None
    # Working with the prompt's own numbers is an answer.
    if not {word for word in wishes.words if word.isdecimal()}.isdisjoint(
        _DIGITS.findall(answer.text)
    ):
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
    return answer.code_share >= 0.4


def _evidence(window: _Window, **numbers: float) -> dict[str, object]:
    offset = window.answer.prose.find(window.tokens[window.start])
    return {"word": window.start, "start": offset, "piece": snippet(window.text), **numbers}
