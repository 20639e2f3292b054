"""Server-sent events, cut out of a byte stream as it comes.

Every byte belongs to exactly one event, so that forwarding the events' raw bytes forwards the
stream.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DONE = b"[DONE]"

_LINE_END = rb"(?:\r\n|\n|\r(?!\n))"
_EVENT_END = re.compile(_LINE_END + _LINE_END)
_LINES = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event with the bytes it came in, its blank line included."""

    raw: bytes
    data: bytes | None
    """The data lines joined; ``None`` for comments and events without data."""


class SseSplitter:
    """Cut a stream into events, wherever its chunks end."""

    def __init__(self, limit: int = 16 * 2**20) -> None:
        self._limit = limit
        self._rest = b""
        self.too_long = False
        """Whether an event grew beyond the limit, in bytes; from then on nothing is cut."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes.

        A carriage return at the end waits for the next chunk, which may begin with its line feed.
        """
        if self.too_long:
            return [Event(chunk, None)] if chunk else []
        # What vLLM sends: one event of one line.
        if (
            not self._rest
            and chunk.startswith(b"data: ")
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk.endswith(b"\n")
            and b"\r" not in chunk
        ):
            return [Event(chunk, chunk[6:-2])]
        return self._cut(chunk)

    def rest(self) -> bytes:
        """Return, and forget, the bytes of an event that has not ended."""
        rest, self._rest = self._rest, b""
        return rest

    def _cut(self, chunk: bytes) -> list[Event]:
        # An end may straddle the seam by three bytes; what lies before was searched already.
        searched = max(0, len(self._rest) - 3)
        text = self._rest + chunk
        if b"\r" not in text:
            return self._cut_at_line_feeds(text)
        usable = len(text) - 1 if text.endswith(b"\r") else len(text)
        events: list[Event] = []
        start = 0
        while found := _EVENT_END.search(text, max(start, searched), usable):
            raw = text[start : found.end()]
            events.append(Event(raw, data_of(raw)))
            start = found.end()
        return self._keep(text[start:], events)

    def _cut_at_line_feeds(self, text: bytes) -> list[Event]:
        *complete, rest = text.split(b"\n\n")
        events = [Event(part + b"\n\n", _data_of_part(part)) for part in complete]
        return self._keep(rest, events)

    def _keep(self, rest: bytes, events: list[Event]) -> list[Event]:
        self._rest = rest
        if len(self._rest) > self._limit:
            self.too_long = True
            events.append(Event(self.rest(), None))
        return events


def data_of(raw: bytes) -> bytes | None:
    """Return the data of one event's lines, joined by line feeds; ``None`` without a data line."""
    found: list[bytes] = []
    for line in _LINES.split(raw.removeprefix(_BOM)):
        if line.startswith(b"data:"):
            found.append(line[5:].removeprefix(b" "))
        elif line == b"data":
            found.append(b"")
    return b"\n".join(found) if found else None


def _data_of_part(part: bytes) -> bytes | None:
    if part.startswith(b"data: ") and b"\n" not in part:
        return part[6:]
    return data_of(part)


def event_of(data: bytes) -> bytes:
    """Return the event that carries one line of data, as vLLM writes it."""
    return b"data: " + data + b"\n\n"
