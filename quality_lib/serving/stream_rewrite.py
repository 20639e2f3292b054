"""Changing a stream while it passes: extras are taken out, and bad choices are ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from quality_lib.serving.answer_json import AnswerPart, UsagePart
from quality_lib.serving.asked import Asked
from quality_lib.serving.response_state import ResponseState
from quality_lib.serving.sse import DONE, Event, SseSplitter, event_of
from quality_lib.serving.strip import Extras, strip_chunk

STOP_REASON = "quality_stop"
"""The finish reason of a choice that the guard has ended."""

_KEPT = ("id", "object", "created", "model")

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class StreamRewrite:
    """Give every event on as soon as it is complete, without what only we asked for.

    The monitors are asked whenever ``ask_every`` chunks have come. Where it ``stops``, a choice that
    has FAILED is ended then; the stream ends when all its choices have.
    """

    def __init__(
        self,
        state: ResponseState,
        asked: Asked,
        extras: Extras,
        *,
        ask_every: int,
        stops: bool = False,
    ) -> None:
        self._state = state
        self._asked = asked
        self._extras = extras
        self._ask_every = ask_every
        self._stops = stops
        self._splitter = SseSplitter()
        self._since_asked = 0
        self._last: dict[int, bytes] = {}
        self._usages: dict[int, UsagePart] = {}
        self.stopped = state.closed
        """Choices that were ended."""
        self.ended = False
        """Whether the last bytes given were the stream's end, because all choices were stopped."""
        self.unstripped = 0
        """Chunks that were given on as they came, because they could not be read."""

    @property
    def size(self) -> int:
        """Return how many bytes wait to be read: none, every chunk is read at once."""
        return 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes that the client gets for this chunk; often all, sometimes none."""
        out = bytearray()
        for event in self._splitter.feed(chunk):
            out += self._event(event)
            if self._since_asked >= self._ask_every:
                self._since_asked = 0
                failed = self._state.ask_monitors()
                if self._stops:
                    out += self._stop(failed)
            if self.ended:
                break
        return bytes(out)

    def rest(self) -> bytes:
        """Return the bytes of an event that never ended, as they came."""
        return self._splitter.rest()

    def settle(self) -> None:
        """Show the monitors the last chunks."""
        self._state.ask_monitors()

    def _event(self, event: Event) -> bytes:
        if event.data is None:
            return event.raw
        part = self._state.take(event.data)
        if part is None or not part.choices:
            return event.raw
        self._since_asked += 1
        if self._stops:
            self._remember(event.data, part)
        if self.stopped and all(c.index in self.stopped for c in part.choices):
            return b""
        if not self._extras:
            return event.raw
        try:
            data = strip_chunk(event.data, self._extras)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unstripped += 1
            return event.raw
        if data is None:
            return b""
        return event.raw if data == event.data else event_of(data)

    def _remember(self, data: bytes, part: AnswerPart) -> None:
        for choice in part.choices or ():
            self._last[choice.index] = data
            if part.usage is not None:
                self._usages[choice.index] = part.usage

    def _stop(self, failed: Sequence[int]) -> bytes:
        out = bytearray()
        for index in failed:
            choice = self._state.choices[index]
            if index not in self.stopped and choice.finish_reason is None and index in self._last:
                choice.finish_reason = STOP_REASON
                self.stopped.add(index)
                out += event_of(self._final_chunk(index))
        if out and self._all_over():
            self.ended = True
            if self._asked.wants_usage and self._usages:
                out += event_of(self._usage_chunk())
            out += event_of(DONE)
        return bytes(out)

    def _all_over(self) -> bool:
        over = sum(c.finish_reason is not None for c in self._state.choices.values())
        return over >= self._asked.choices

    def _final_chunk(self, index: int) -> bytes:
        said: dict[str, Any] = {"delta": {}} if self._asked.is_chat else {"text": ""}
        choice = {
            "index": index,
            **said,
            "logprobs": None,
            "finish_reason": STOP_REASON,
            "stop_reason": None,
        }
        return self._like_the_last(index, [choice], running=self._asked.wants_running_usage)

    def _usage_chunk(self) -> bytes:
        usages = self._usages
        completion = sum(u.completion_tokens or 0 for u in usages.values())
        per_prompt = {index // self._asked.n: u.prompt_tokens or 0 for index, u in usages.items()}
        prompt = sum(per_prompt.values())
        usage = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        return self._like_the_last(next(iter(self._last)), [], usage=usage)

    def _like_the_last(
        self, index: int, choices: list[Any], *, running: bool = False, **more: Any
    ) -> bytes:
        """Write a chunk with the names and the order of fields that this server uses."""
        last = _object(self._last[index])
        kept = (*_KEPT, "usage") if running else _KEPT
        chunk: dict[str, Any] = {k: v for k, v in last.items() if k in kept or k == "choices"}
        return _encode({**chunk, "choices": choices, **more})
