"""A finished answer, read once for all gates. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.layout import Fence, fences, prose_of, without_code
from quality_lib.gates.wishes import Wishes
from quality_lib.gates.word_kind import word_kind

CUT_REASONS = frozenset({"length", "max_tokens", "MAX_TOKENS", "abort", "cancelled", "repetition"})
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
        self.plain = without_code(self.text)
        """The text with code blanked out."""
        self.prose = prose_of(self.plain)
        """The text with code, tables, formulas and addresses blanked out."""
        self.tokens = self.prose.split()
        """What stands between blanks in the prose."""
        self.small_tokens = self.prose.lower().split()
        """The same in small letters."""

    @cached_property
    def kinds(self) -> str:
        """The kind of every token, one character each (``word_kind``)."""
        return "".join(map(word_kind, self.tokens))

    @cached_property
    def wishes(self) -> Wishes:
        """What the caller wished for."""
        return Wishes(self.asked)

    @cached_property
    def fences(self) -> tuple[Fence, ...]:
        """The fenced blocks of code."""
        return fences(self.text)

    @cached_property
    def flat(self) -> str:
        """The text with every run of blanks made one."""
        return " ".join(self.text.split())

    @cached_property
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
