"""What the name of an object or request decides: whether it is read, by which task. Pure."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

_WHOLE = float(1 << 64)


@dataclass(frozen=True)
class KeyHash:
    """Three independent parts of one digest of a name."""

    position: float
    """In [0, 1), evenly spread: a name is in a sample of rate r when this is below r."""
    share: int
    """64 bits that choose the partition."""
    mark: str
    """Eight characters that stand for the name in a watermark."""

    def partition(self, count: int) -> int:
        """Return which of ``count`` partitions the name belongs to."""
        return self.share * count >> 64


def key_hash(seed: str, name: str) -> KeyHash:
    """Hash a name; any text will do, lone surrogates too."""
    digest = hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()
    return KeyHash(
        position=min(int.from_bytes(digest[:8], "big") / _WHOLE, 1 - 2**-53),
        share=int.from_bytes(digest[8:16], "big"),
        mark=base64.urlsafe_b64encode(digest[16:22]).decode("ascii"),
    )


def position(seed: str, name: str) -> float:
    """Return only where in [0, 1) the name lies."""
    digest = hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / _WHOLE
