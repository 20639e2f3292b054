"""A finished answer, read once for all gates. Pure."""

from __future__ import annotations

import re
import unicodedata
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
from quality_lib.gates.word_signs import Signs, signs_of, small_tokens_of

CUT_REASONS = frozenset({
    *("length", "max_tokens", "MAX_TOKENS"),
    *("abort", "cancelled"),
    *("repetition", "quality_stop"),
})
"""Finish reasons of an answer that did not end by itself."""
_STRUCTURED = re.compile(r"\s*(?:[\[{]\s*[\"\[{\d\]}tfn-]|<[!?/a-zA-Z])")


def composed(text: str) -> str:
    """Return a text with each letter and its accents as one character, as nearly everybody writes it.

    Decomposed text (macOS file names, some Vietnamese and Korean keyboards) looks the same to people, and
    to gates that count letters it would be a row of broken words.
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


class AnswerView:
    """What gates look at; what nearly all of them need is worked out at once, the rest when asked for."""

    def __init__(self, exchange: Exchange, answer: Answer) -> None:
        self.exchange = exchange
        self.answer = answer
        self.asked = composed(exchange.asked)
        """All that the caller wrote."""
        self.was_cut = answer.finish_reason in CUT_REASONS
        self.may_be_cut = self.was_cut or not answer.finish_reason
        self.text = composed(answer.text or "")
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

    @lazy
    def small_tokens(self) -> list[str]:
        """What stands between blanks in the prose in small letters."""
        return small_tokens_of(self.tokens)

    @lazy
    def signs(self) -> Signs:
        """What every token is, one character each."""
        return signs_of(self.tokens)

    @property
    def kinds(self) -> str:
        """Return the kind of every token, one character each (``word_kind``)."""
        return self.signs.kinds

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
_MARKS_TO_BLANKS = bytes(
    code if chr(code).isalpha() or chr(code) == "'" else 32 for code in range(128)
) + bytes(128)


def words_of(text: str) -> list[str]:
    """Return nearly what ``WORDS`` finds, many times faster in ASCII; quotes may stick to words."""
    if not text.isascii():
        return WORDS.findall(text)
    return text.encode().translate(_MARKS_TO_BLANKS).decode().split()


_LOOSE_QUOTE = re.compile(r"'(?![a-zA-Z])|(?<![a-zA-Z])'")


def are_words(text: str) -> bool:
    """Whether ``words_of`` finds in the text the very words of ``WORDS``."""
    return "'" not in text or not text.isascii() or _LOOSE_QUOTE.search(text) is None
