"""A finished answer, read once for all gates. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.layout import (
    Fence,
    blanked,
    code_line_share,
    fences,
    is_laid_out,
    is_short_lined,
    prose_of,
    without_inline_code,
)
from quality_lib.gates.lazy import lazy
from quality_lib.gates.wishes import Wishes
from quality_lib.gates.word_kind import kinds_of

CUT_REASONS = frozenset({
    *("length", "max_tokens", "MAX_TOKENS"),
    *("abort", "cancelled"),
    *("repetition", "quality_stop"),
})
"""Finish reasons of an answer that did not end by itself."""
_STRUCTURED = re.compile(r"\s*(?:[\[{]\s*[\"\[{\d\]}tfn-]|<[!?/a-zA-Z])")


class AnswerView:
    """What gates look at; what nearly all of them need is worked out at once, the rest when asked for."""

    def __init__(self, exchange: Exchange, answer: Answer) -> None:
        self.exchange = exchange
        self.answer = answer
        self.asked = exchange.asked
        """All that the caller wrote."""
        self.was_cut = answer.finish_reason in CUT_REASONS
        self.may_be_cut = self.was_cut or not answer.finish_reason
        self.text = answer.text or ""
        self.body = self.text.rstrip(" \t\r\n\v\f\ufffd")
        """The text without the blanks and half characters at its end."""
        self.is_ascii = self.text.isascii()
        self.fences: tuple[Fence, ...] = fences(self.text)
        """The fenced blocks of code."""
        self.plain = without_inline_code(blanked(self.text, self.fences))
        """The text with code blanked out."""
        self.prose = prose_of(self.plain)
        """The text with code, tables, formulas and addresses blanked out."""
        self.tokens = self.prose.split()
        """What stands between blanks in the prose."""
        self.small = self.prose.lower()
        """The prose in small letters."""
        self.small_tokens = self.small.split()
        """What stands between blanks there."""
        self.longest = max(map(len, self.tokens), default=0)
        """Characters of the longest of the tokens."""

    @lazy
    def kinds(self) -> str:
        """The kind of every token, one character each (``word_kind``)."""
        return kinds_of(self.tokens)

    @lazy
    def wishes(self) -> Wishes:
        """What the caller wished for."""
        return Wishes(self.asked)

    @lazy
    def is_laid_out(self) -> bool:
        """Whether its lines are those of a listing."""
        return is_laid_out(self.prose)

    @lazy
    def is_short_lined(self) -> bool:
        """Whether its lines are short."""
        return is_short_lined(self.prose)

    @lazy
    def code_share(self) -> float:
        """The share of lines outside code marks that look like code."""
        return code_line_share(self.plain)

    @lazy
    def flat(self) -> str:
        """The text with every run of blanks made one."""
        return " ".join(self.tokens if self.prose is self.text else self.text.split())

    @lazy
    def is_structured(self) -> bool:
        """Whether the text is one JSON value or markup."""
        return _STRUCTURED.match(self.text) is not None


View = Callable[[Exchange], AnswerView | None]
"""Gives the view of an exchange; None when it has no answer."""


def shared_view() -> View:
    """Make a view that reads an exchange once, however many gates ask for it in a row."""
    held: tuple[Exchange, AnswerView | None] | None = None

    def view(exchange: Exchange) -> AnswerView | None:
        nonlocal held
        # One tuple is read and written at once, so threads at worst read an exchange twice.
        known = held
        if known is not None and known[0] is exchange:
            return known[1]
        made = None if exchange.answer is None else AnswerView(exchange, exchange.answer)
        held = (exchange, made)
        return made

    return view


WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
"""Words as runs of letters."""
_MARKS_TO_BLANKS = {
    code: " " for code in range(128) if not (chr(code).isalpha() or chr(code) == "'")
}


def words_of(text: str) -> list[str]:
    """Return nearly what ``WORDS`` finds, many times faster in ASCII; quotes may stick to words."""
    return text.translate(_MARKS_TO_BLANKS).split() if text.isascii() else WORDS.findall(text)
