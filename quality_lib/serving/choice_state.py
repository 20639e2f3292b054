"""What one choice of an answer has become so far, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quality_lib.exchanges.exchange import Answer, ToolCall
from quality_lib.records import Outcome, Verdict
from quality_lib.serving.answer_json import ChoicePart, LogprobsPart, MessagePart, ToolCallPart
from quality_lib.serving.text_window import TextWindow

MAX_TOOL_CALLS = 128
"""Tool calls kept of one choice; OpenAI's own limit of tools in a request."""

LOWEST_LOGPROB = -9999.0
"""What vLLM writes for a probability of zero; also stands for a number that was none."""


class Monitor(Protocol):
    """What watches one choice while it is generated (``gates.level_stream.StreamMonitor``)."""

    def feed(
        self,
        text: str,
        token_ids: Sequence[int] = (),
        logprobs: Sequence[float] = (),
        entropies: Sequence[float] = (),
    ) -> Verdict | None:
        """Take the next piece; return a verdict when there is something new to say."""
        ...

    def finish(self, finish_reason: str | None = None) -> tuple[Verdict, ...]:
        """Judge the rest."""
        ...

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all that was found, the worst first."""
        ...

    @property
    def suspicious_tokens(self) -> int:
        """Return how many tokens came that no healthy answer holds."""
        ...


MonitorFactory = Callable[[int], Monitor]
"""Makes the monitor of the choice with this index."""


@dataclass(frozen=True)
class Caps:
    """How much of one choice is kept."""

    characters: int = 400_000
    """Of its text; beyond, head and tail."""
    tokens: int = 32_768
    """Token ids and log-probabilities, from the start."""


@dataclass
class _Call:
    name: str = ""
    id: str = ""
    arguments: TextWindow = field(default_factory=lambda: TextWindow(0))


class ChoiceState:
    """Collect one choice and show it to its monitor."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._monitor: Monitor | None = None
        self._text = TextWindow(caps.characters)
        self._reasoning = TextWindow(caps.characters)
        self._refusal = TextWindow(caps.characters)
        self._has_content = False
        self._calls: dict[int, _Call] = {}
        self._token_ids: list[int] = []
        self._logprobs: list[float] = []
        self._nan = 0
        self._fresh: list[str] = []
        self._fresh_ids: list[int] = []
        self._fresh_logprobs: list[float] = []
        self.prompt_token_ids: tuple[int, ...] | None = None
        self.tokens = 0
        """Tokens seen, where the answer told them."""
        self.entropies: tuple[float, ...] = ()
        """Of its tokens in nats, where the engine measured them; known at the end."""
        self.finish_reason: str | None = None
        self.failed = False
        """Whether the monitor has found the choice bad."""
        self.monitor_crashed = False

    def watch(self, monitor: MonitorFactory, index: int) -> None:
        """Show everything from now on to a monitor of this choice."""
        try:
            self._monitor = monitor(index)
        except Exception:  # noqa: BLE001  a broken monitor must not touch the answer
            self._drop_monitor()

    def add(self, part: ChoicePart) -> None:
        """Take the next piece, or the whole choice."""
        message = part.delta or part.message
        if message is not None:
            self._add_message(message)
        elif part.text is not None:
            self._has_content = True
            self._add_text(self._text, part.text)
        if part.token_ids:
            self._add_ids(part.token_ids)
        if part.prompt_token_ids and len(part.prompt_token_ids) <= self._caps.tokens:
            self.prompt_token_ids = tuple(part.prompt_token_ids)
        if part.logprobs is not None:
            self._add_logprobs(part.logprobs)
        if part.finish_reason is not None:
            self.finish_reason = part.finish_reason

    def saw_nan(self) -> None:
        """Take note of a NaN that the server told otherwise than in the answer."""
        self._nan = max(1, self._nan)

    def ask_monitor(self) -> bool:
        """Show the monitor what came since the last time; return whether the choice has FAILED."""
        if self._monitor is None or not (self._fresh or self._fresh_ids or self._fresh_logprobs):
            return self.failed
        text, self._fresh = "".join(self._fresh), []
        ids, self._fresh_ids = self._fresh_ids, []
        logprobs, self._fresh_logprobs = self._fresh_logprobs, []
        try:
            if self._monitor.feed(text, ids, logprobs) is not None:
                self.failed = self._monitor.verdicts[0].outcome is Outcome.FAILED
        except Exception:  # noqa: BLE001  as above
            self._drop_monitor()
        return self.failed

    def finish_monitor(self) -> tuple[tuple[Verdict, ...], int]:
        """Return what the monitor found, the worst first, and how many suspicious tokens it saw."""
        self.ask_monitor()
        if self._monitor is None:
            return (), 0
        try:
            # Without measured entropies a NaN of the log-probabilities stands for that of its step.
            if entropies := self.entropies or ((math.nan,) if self._nan else ()):
                self._monitor.feed("", (), (), entropies)
            self._monitor.finish(self.finish_reason)
            return self._monitor.verdicts, self._monitor.suspicious_tokens
        except Exception:  # noqa: BLE001  as above
            self._drop_monitor()
            return (), 0

    @property
    def complete(self) -> bool:
        """Return whether all that came was kept, so that the whole can be judged."""
        windows = [self._text, self._reasoning, *(c.arguments for c in self._calls.values())]
        return not any(window.dropped for window in windows)

    @property
    def dropped_characters(self) -> int:
        """Return how many characters of the text were not kept."""
        return self._text.dropped + self._reasoning.dropped

    @property
    def dropped_tokens(self) -> int:
        """Return how many token ids were not kept."""
        return self.tokens - len(self._token_ids)

    @property
    def refusal(self) -> str | None:
        """Return the model's refusal, where the server tells it apart."""
        return self._refusal.text if self._refusal.length else None

    def answer(self, echoed: str | None = None) -> Answer:
        """Return the choice as gates see it; ``echoed`` is a prompt to take off its front."""
        text = self._text.text
        if echoed:
            text = text.removeprefix(echoed)
        whole = self.dropped_tokens == 0
        return Answer(
            text=text if self._has_content else None,
            tool_calls=tuple(
                ToolCall(call.name, call.arguments.text, call.id)
                for _, call in sorted(self._calls.items())
            ),
            reasoning=self._reasoning.text if self._reasoning.length else None,
            finish_reason=self.finish_reason,
            token_ids=tuple(self._token_ids) if self._token_ids and whole else None,
            logprobs=tuple(self._logprobs) if self._logprobs and whole else None,
            entropies=self.entropies or None,
            nan_logits=self._nan or None,
        )

    @property
    def kept_characters(self) -> int:
        """Return how many characters are held in memory."""
        windows = [self._text, self._reasoning, *(c.arguments for c in self._calls.values())]
        return sum(window.kept for window in windows)

    @property
    def kept_tokens(self) -> int:
        """Return how many token ids or log-probabilities are held in memory."""
        return max(len(self._token_ids), len(self._logprobs))

    def _drop_monitor(self) -> None:
        self._monitor = None
        self.monitor_crashed = True

    def _add_message(self, message: MessagePart) -> None:
        if message.content is not None:
            self._has_content = True
            self._add_text(self._text, message.content)
        reasoning = message.reasoning or message.reasoning_content
        if reasoning:
            self._add_text(self._reasoning, reasoning)
        if message.refusal:
            self._refusal.add(message.refusal)
        for position, call in enumerate(message.tool_calls or ()):
            self._add_call(position if call.index is None else call.index, call)

    def _add_text(self, window: TextWindow, text: str) -> None:
        if text:
            window.add(text)
            if self._monitor is not None:
                self._fresh.append(text)

    def _add_call(self, index: int, part: ToolCallPart) -> None:
        call = self._calls.get(index)
        if call is None:
            if len(self._calls) >= MAX_TOOL_CALLS:
                return
            call = self._calls[index] = _Call(arguments=TextWindow(self._caps.characters))
        call.id = call.id or part.id or ""
        if part.function is not None:
            call.name = call.name or part.function.name or ""
            self._add_text(call.arguments, part.function.arguments or "")

    def _add_ids(self, ids: list[int]) -> None:
        self.tokens += len(ids)
        room = self._caps.tokens - len(self._token_ids)
        if room > 0:
            self._token_ids += ids[:room]
        if self._monitor is not None:
            self._fresh_ids += ids

    def _add_logprobs(self, part: LogprobsPart) -> None:
        told = part.token_logprobs
        if part.content is not None:
            told = [token.logprob for token in part.content]
        if not told:
            return
        # A number that is none is null in JSON.
        self._nan += sum(value is None for value in told)
        values = [LOWEST_LOGPROB if value is None else value for value in told]
        room = self._caps.tokens - len(self._logprobs)
        if room > 0:
            self._logprobs += values[:room]
        if self._monitor is not None:
            self._fresh_logprobs += values
