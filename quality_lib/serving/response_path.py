"""The way of an answer from the server through the guard to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from quality_lib.serving.answer_json import UsagePart
from quality_lib.serving.asgi import (
    Header,
    Message,
    Receive,
    Scope,
    Send,
    header,
    media_type,
    with_header,
)
from quality_lib.serving.asked import Asked
from quality_lib.serving.guard_parts import GuardParts
from quality_lib.serving.guard_ports import skipped
from quality_lib.serving.response_state import ResponseState
from quality_lib.serving.stream_rewrite import StreamRewrite
from quality_lib.serving.strip import Extras, strip_body
from quality_lib.serving.watch import BodyWatch, Settles, StreamWatch

MAX_ERROR_BYTES = 4096
"""Kept of an error that is withheld."""

REFUSED_DETAIL = frozenset({400, 422, 501})
"""Answers after which a request that the guard has added to is asked once more as it was."""


class StreamStopped(OSError):
    """Raised into a server that notices a lost client only when it sends (ASGI 2.4 and later)."""


class ResponsePath:
    """Forward an answer's messages, read them on the way, and change what must be changed."""

    def __init__(
        self,
        parts: GuardParts,
        asked: Asked,
        state: ResponseState,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        extras: Extras,
        began: float,
        own_headers: Sequence[Header],
        may_ask_again: bool,
        stops: bool,
    ) -> None:
        self._parts = parts
        self._asked = asked
        self._state = state
        self._scope = scope
        self._receive = receive
        self._out = send
        self._extras = extras
        self._own_headers = own_headers
        self._may_ask_again = may_ask_again
        self._stops = stops
        self._began = began
        self._rewrite: StreamRewrite | None = None
        self._held: Message | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._stop = asyncio.Event()
        self._reader: StreamWatch | BodyWatch | None = None
        self._hot: Callable[[bytes], None] | None = None
        self.status: int | None = None
        self.first_byte_s: float | None = None
        self.withheld = False
        """Whether the answer was an error to our own additions and went nowhere."""
        self.withheld_error = b""
        """The beginning of what it said."""
        self.complete = False
        self.disconnected = False

    @property
    def stopped(self) -> bool:
        """Return whether the guard has ended the stream."""
        return self._stop.is_set()

    @property
    def unread(self) -> Settles | None:
        """Return what still holds parts of the answer that were not read."""
        return self._rewrite or self._reader

    async def receive(self) -> Message:
        """Give the server its next message: the client's, or a disconnect once we have stopped."""
        if not self._stops:
            message = await self._receive()
        else:
            message = await self._received_or_stopped()
        if message["type"] == "http.disconnect" and not self.complete:
            self.disconnected = True
        return message

    async def send(self, message: Message) -> None:
        """Take the server's next message."""
        if self._hot is not None and message.get("more_body") and "body" in message:
            # A chunk of a stream that is only watched: the way that must be short.
            try:
                self._hot(message["body"])
            except Exception:  # noqa: BLE001  a failure of ours must not touch the answer
                self._give_up_reading()
            await self._out(message)
            return
        if self._stop.is_set():
            version = str(self._scope.get("asgi", {}).get("spec_version", "2.0"))
            if tuple(map(int, version.split("."))) >= (2, 4):
                raise StreamStopped("the guard has ended this stream")
            return
        kind = message["type"]
        if kind == "http.response.body":
            await self._send_body(message)
        elif kind == "http.response.start":
            await self._send_start(message)
        else:
            await self._out(message)

    def usage(self) -> UsagePart | None:
        """Return the usage that vLLM leaves in the request's state, whoever asked for it."""
        metadata = (self._scope.get("state") or {}).get("request_metadata")
        told = getattr(metadata, "final_usage_info", None)
        counts = (getattr(told, "prompt_tokens", None), getattr(told, "completion_tokens", None))
        return UsagePart(*counts) if all(isinstance(c, int) for c in counts) else None

    async def _received_or_stopped(self) -> Message:
        received = asyncio.ensure_future(self._receive())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({received, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return received.result() if received.done() else {"type": "http.disconnect"}
        finally:
            received.cancel()
            stopped.cancel()

    async def _send_start(self, message: Message) -> None:
        self.status = message["status"]
        if self._may_ask_again and self.status in REFUSED_DETAIL:
            self.withheld = True
            return
        headers = list(message.get("headers", ()))
        self._choose(headers)
        for name, value in self._own_headers:
            if header(headers, name) is None:
                headers.append((name, value))
        message = {**message, "headers": headers}
        if self._held is not None:
            self._held = message
        else:
            await self._out(message)

    def _choose(self, headers: list[Any]) -> None:
        """Choose how the body is read, by what it is and what must be taken out of it."""
        parts, limits = self._parts, self._parts.limits
        if header(headers, b"content-encoding") not in {None, b"identity"}:
            skipped(parts.counters, "answer", "compressed")
            return
        kind = media_type(headers)
        good = self.status == 200
        if kind == "text/event-stream":
            if good and (self._extras or self._stops):
                self._rewrite = StreamRewrite(
                    self._state,
                    self._asked,
                    self._extras,
                    ask_every=limits.stop_chunks if self._stops else limits.batch_chunks,
                    stops=self._stops,
                )
            else:
                self._reader = StreamWatch(self._state, limits, parts.clock)
        elif kind == "application/json":
            self._reader = BodyWatch(self._state, limits.max_answer_bytes)
            if good and self._extras:
                self._held = {}

    async def _send_body(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        if self.withheld:
            self.withheld_error += body[: MAX_ERROR_BYTES - len(self.withheld_error)]
            return
        more: bool = message.get("more_body", False)
        if self.first_byte_s is None and body:
            self.first_byte_s = self._parts.clock() - self._began
            if isinstance(self._reader, StreamWatch):
                self._hot = self._reader.feed
        if not more:
            self.complete = True
        if self._rewrite is not None:
            await self._send_rewritten(self._rewrite, message, body, more)
            return
        self._feed(body)
        if self._held is not None:
            await self._send_stripped(body, more)
        else:
            await self._out(message)

    def _feed(self, body: bytes) -> None:
        if self._reader is None:
            return
        try:
            self._reader.feed(body)
        except Exception:  # noqa: BLE001  as above
            self._give_up_reading()

    def _give_up_reading(self) -> None:
        self._reader = self._hot = None
        skipped(self._parts.counters, "answer", "gate_crashed")

    async def _send_rewritten(
        self, rewrite: StreamRewrite, message: Message, body: bytes, more: bool
    ) -> None:
        try:
            out = rewrite.feed(body)
            if not more:
                out += rewrite.rest()
        except Exception:  # noqa: BLE001  as above
            self._rewrite = None
            skipped(self._parts.counters, "answer", "gate_crashed")
            out = body
        if rewrite.ended:
            self._stop.set()
            self.complete = True
            await self._out({"type": "http.response.body", "body": out, "more_body": False})
        elif out or not more:
            await self._out({**message, "body": out})

    async def _send_stripped(self, body: bytes, more: bool) -> None:
        """Hold a whole answer back until it can be told how long it is without the extras."""
        self._body.append(body)
        self._body_size += len(body)
        is_long = self._body_size > self._parts.limits.max_answer_bytes
        if more and not is_long:
            return
        start, self._held = self._held or {}, None
        text, self._body = b"".join(self._body), []
        if not more:
            text = self._stripped(text)
            length = str(len(text)).encode()
            if header(start["headers"], b"content-length") is not None:
                start["headers"] = with_header(start["headers"], b"content-length", length)
        await self._out(start)
        await self._out({"type": "http.response.body", "body": text, "more_body": more})

    def _stripped(self, text: bytes) -> bytes:
        try:
            return strip_body(text, self._extras)
        except (msgspec.DecodeError, UnicodeDecodeError):
            skipped(self._parts.counters, "answer", "unreadable")
            return text
