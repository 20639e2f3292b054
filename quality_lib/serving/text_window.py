"""A growing text kept within bounds: its head and its tail."""

from __future__ import annotations


class TextWindow:
    """Keep up to ``limit`` characters: all of a short text, the two ends of a long one."""

    __slots__ = ("_half", "_head", "_kept", "_limit", "_parts", "length")

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._half = self._limit // 2
        self._head = ""
        self._parts: list[str] = []
        self._kept = 0
        self.length = 0
        """Characters added so far, those no longer kept included."""

    def add(self, text: str) -> None:
        """Append a piece."""
        self._parts.append(text)
        self._kept += len(text)
        self.length += len(text)
        if self._kept > self._limit:
            self._shorten()

    @property
    def kept(self) -> int:
        """Return how many characters are held."""
        return len(self._head) + self._kept

    @property
    def dropped(self) -> int:
        """Return how many characters between head and tail are gone."""
        return self.length - len(self.text) if self._head else 0

    @property
    def text(self) -> str:
        """Return the head and the tail, joined without a mark."""
        kept = "".join(self._parts)
        return self._head + kept[-self._half :] if self._head else kept

    def _shorten(self) -> None:
        text = "".join(self._parts)
        if not self._head:
            self._head, text = text[: self._half], text[self._half :]
        self._parts = [text[-self._half :]]
        self._kept = len(self._parts[0])
