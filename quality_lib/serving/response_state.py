"""What is known of one response: its choices, its usage, its error. In bounded memory."""

from __future__ import annotations

import msgspec

from quality_lib.serving.answer_json import (
    AnswerPart,
    ErrorPart,
    UsagePart,
    decode_answer,
    decode_error,
)
from quality_lib.serving.choice_state import Caps, ChoiceState, MonitorFactory
from quality_lib.serving.sse import DONE

MAX_CHOICES = 1024
"""Choices kept of one response; more are counted only."""


class ResponseState:
    """Collect a response from its JSON texts."""

    def __init__(
        self, caps: Caps, monitor: MonitorFactory | None = None, *, echoes: bool = False
    ) -> None:
        self._caps = caps
        self._echoes = echoes
        self._monitor = monitor
        self.choices: dict[int, ChoiceState] = {}
        self.usage: UsagePart | None = None
        self.error: ErrorPart | None = None
        self.prompt_token_ids: tuple[int, ...] | None = None
        self.unreadable = 0
        """Texts that were no JSON of the expected shape."""
        self.unkept_choices = 0
        self.closed: set[int] = set()
        """Choices to which nothing is added any more."""
        self.done = False

    def take(self, data: bytes) -> AnswerPart | None:
        """Read one chunk's data or a whole body; ``None`` for what cannot be read."""
        if data == DONE:
            self.done = True
            return None
        try:
            part = decode_answer(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unreadable += 1
            return None
        if part.usage is not None:
            self.usage = part.usage
        if part.prompt_token_ids and len(part.prompt_token_ids) <= self._caps.tokens:
            self.prompt_token_ids = tuple(part.prompt_token_ids)
        if bytes(part.error) not in {b"", b"null"}:
            self.error = _error_of(part.error)
        for choice in part.choices or ():
            if choice.index in self.closed:
                continue
            state = self.choices.get(choice.index)
            if state is None:
                state = self._new(choice.index)
            if state is not None:
                if self._echoes:
                    # They begin with those of the prompt, whose first token has none.
                    choice.logprobs = None
                state.add(choice)
        return part

    def ask_monitors(self) -> list[int]:
        """Show every monitor what is new; return the choices that have FAILED."""
        return [index for index, choice in self.choices.items() if choice.ask_monitor()]

    def _new(self, index: int) -> ChoiceState | None:
        if len(self.choices) >= MAX_CHOICES:
            self.unkept_choices += 1
            return None
        state = self.choices[index] = ChoiceState(self._caps)
        if self._monitor is not None:
            state.watch(self._monitor, index)
        return state


def _error_of(raw: msgspec.Raw) -> ErrorPart:
    try:
        return decode_error(raw)
    except msgspec.DecodeError:
        return ErrorPart(message=bytes(raw)[:200].decode("utf-8", "replace"))
