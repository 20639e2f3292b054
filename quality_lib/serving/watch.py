"""Reading a response while it passes, at a cost per chunk that a busy server can afford."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quality_lib.serving.guard_parts import GuardLimits
from quality_lib.serving.response_state import ResponseState
from quality_lib.serving.sse import SseSplitter


class Settles(Protocol):
    """Something that reads a response."""

    @property
    def size(self) -> int:
        """Return how many bytes wait to be read."""
        ...

    def settle(self) -> None:
        """Read what has not been read yet; called once, possibly in another thread."""
        ...


class StreamWatch:
    """Read a stream's chunks in batches: when there are enough, or the oldest is old enough."""

    def __init__(
        self, state: ResponseState, limits: GuardLimits, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._max_chunks = limits.batch_chunks
        self._max_bytes = limits.batch_bytes
        self._every_s = limits.batch_s
        self._clock = clock
        self._splitter = SseSplitter()
        self._pending: list[bytes] = []
        self._size = 0
        self._due = clock() + limits.batch_s

    @property
    def size(self) -> int:
        """Return how many bytes wait to be read."""
        return self._size

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        pending = self._pending
        pending.append(chunk)
        self._size += len(chunk)
        count = len(pending)
        if (
            count >= self._max_chunks
            or self._size >= self._max_bytes
            # The time is looked at only now and then.
            or (not count & 7 and self._clock() >= self._due)
        ):
            self._read()

    def settle(self) -> None:
        """Read the last batch."""
        self._read()

    def _read(self) -> None:
        text, self._pending, self._size = b"".join(self._pending), [], 0
        self._due = self._clock() + self._every_s
        for event in self._splitter.feed(text):
            if event.data is not None:
                self._state.take(event.data)
        self._state.ask_monitors()


class BodyWatch:
    """Keep a whole body, and read it when it has passed."""

    def __init__(self, state: ResponseState, limit: int) -> None:
        self._state = state
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Return how many bytes wait to be read."""
        return self._size if self._parts else 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._size += len(chunk)
        if self._size > self._limit:
            self._parts.clear()
        else:
            self._parts.append(chunk)

    def settle(self) -> None:
        """Read the body."""
        parts, self._parts = self._parts, []
        if parts:
            self._state.take(b"".join(parts))
            self._state.ask_monitors()
