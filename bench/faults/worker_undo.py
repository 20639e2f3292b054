"""What a harmed worker remembers in order to become exactly what it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from quality_lib.serving.tensor_checksum import byte_pieces

PIECE = 1 << 22


class UndoStack:
    """Harms of one part, taken back in reverse order."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def push(self, step: Callable[[], None]) -> None:
        """Remember how one harm is taken back."""
        self._steps.append(step)

    def overwrite(self, tensor: Any, new: Any) -> None:
        """Write into a tensor where it lies; the undo checks the bytes that it has put back."""
        old, before = tensor.data.clone(), digest(tensor)
        tensor.data.copy_(new.to(tensor.dtype))

        def back() -> None:
            tensor.data.copy_(old)
            if digest(tensor) != before:
                raise RuntimeError("a tensor is not what it was before it was harmed")

        self.push(back)

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Set an attribute; the undo puts back the very object that was there, or nothing."""
        held = vars(owner)
        had, old = name in held, held.get(name)
        setattr(owner, name, new)
        self.push(lambda: setattr(owner, name, old) if had else delattr(owner, name))

    def mend(self) -> int:
        """Take everything back and return how many harms there were."""
        count = len(self._steps)
        while self._steps:
            self._steps.pop()()
        return count


class UndoStacks:
    """A stack for each part, so that healthy noise may stay while faults come and go."""

    def __init__(self) -> None:
        self._by_part: dict[str, UndoStack] = {}

    def of(self, part: str) -> UndoStack:
        """Return the stack of a part."""
        return self._by_part.setdefault(part, UndoStack())

    def mend(self, part: str) -> int:
        """Take back one part, or ``all``; return how many harms there were."""
        parts = list(self._by_part) if part == "all" else [part]
        return sum(self.of(name).mend() for name in parts)


def digest(tensor: Any) -> str:
    """Return a checksum of the bytes of a tensor."""
    told = hashlib.blake2b(digest_size=16)
    for piece in byte_pieces(tensor.detach(), PIECE):
        told.update(piece.numpy().tobytes())
    return told.hexdigest()
