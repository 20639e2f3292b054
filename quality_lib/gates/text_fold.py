"""Spellings of the same characters made equal, and texts looked for in others. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def fold(text: str) -> str:
    """Make two spellings of the same characters equal, runs of blanks included."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def listed(text: str) -> tuple[str, ...]:
    """Return the words of a table that is written as one text."""
    return tuple(text.split())


def found_share(wanted: Sequence[str], text: str) -> float | None:
    """Return the share of texts that occur; ``a|b`` wants either. None when nothing is wanted."""
    if not wanted:
        return None
    folded = fold(text)
    found = sum(any(fold(either) in folded for either in one.split("|")) for one in wanted)
    return found / len(wanted)
