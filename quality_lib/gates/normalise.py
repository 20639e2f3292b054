"""Cleans a prompt without touching what carries meaning: code, tables, indentation, scripts. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import regex

from quality_lib.gates.invisible import INVISIBLE, drop_invisible, needs_direction_marks
from quality_lib.gates.verbatim import WIDE_BLANKS, verbatim_spans, without_blank_runs

MAX_OFFSETS = 8
"""Places told per kind of change; the count is always whole."""
_MAX_PASSES = 8


@dataclass(frozen=True)
class TextChange:
    """One kind of change and where it was made."""

    kind: str
    """``line_end``, ``byte_order_mark``, ``zero_width``, ``hidden_tag``, ``bidi_mark``, ``control``,
    ``surrogate``, ``composed`` or ``blanks``."""
    count: int
    offsets: tuple[int, ...]
    """Characters from the start of the text as it was before this kind of change, the first few."""


@dataclass(frozen=True)
class Normalised:
    """The cleaned text and what was changed; no change means that the text is the very same."""

    text: str
    changes: tuple[TextChange, ...] = ()


class _Found:
    """Collects changes by kind."""

    def __init__(self) -> None:
        self._offsets: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}

    def add(self, kind: str, offset: int) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        offsets = self._offsets.setdefault(kind, [])
        if len(offsets) < MAX_OFFSETS:
            offsets.append(offset)

    def changes(self) -> tuple[TextChange, ...]:
        return tuple(
            TextChange(kind, count, tuple(self._offsets[kind]))
            for kind, count in self._counts.items()
        )


# Whatever some step could change. Most texts hold none of it, so these looks must be cheap.
_ODD_ASCII = re.compile(r"[^\n\t -~]")
_ODD = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{INVISIBLE}]")
_ODD_BLANKS = re.compile(f"[{WIDE_BLANKS}](?:[{WIDE_BLANKS} \n]|\\Z)| [{WIDE_BLANKS}]")
_GRAPHEME = regex.compile(r"\X")
_LINE_END = re.compile(r"\r\n?|[\x85\u2028\u2029\x0b\x0c]")


def normalise(text: str) -> Normalised:
    """Clean a text; cleaning it again changes nothing.

    Line ends and a byte order mark are cleaned everywhere. Unicode composition (NFC), invisible and
    control characters and runs of blanks are cleaned outside fenced and inline code; tables, columns
    and indentation keep their blanks.
    """
    if is_clean(text):
        return Normalised(text)
    found = _Found()
    cleaned = text
    for _ in range(_MAX_PASSES):
        # Taking a character away can join two marks of code, so the rules look at the result again.
        before, cleaned = cleaned, _pass(cleaned, found)
        if cleaned == before or is_clean(cleaned):
            break
    return Normalised(cleaned, found.changes() if cleaned != text else ())


def is_clean(text: str) -> bool:
    """Whether no step could change the text; true for nearly every prompt, and cheap."""
    if text.isascii():
        # What is printable in ASCII reaches from the blank to the tilde.
        is_plain = text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable()
        return is_plain and not _has_blank_runs(text)
    return (
        unicodedata.is_normalized("NFC", text)
        and _ODD.search(text) is None
        and not _has_blank_runs(text)
        and _ODD_BLANKS.search(text) is None
    )


def _has_blank_runs(text: str) -> bool:
    return (
        "  " in text
        or " \n" in text
        or "\t\n" in text
        or "\n\n\n" in text
        or text[:1].isspace()
        or text.endswith((" ", "\t", "\n\n"))
    )


def _pass(text: str, found: _Found) -> str:
    if not text.isascii() or _ODD_ASCII.search(text) is not None:
        text = _replace(_LINE_END, text, lambda _: "\n", "line_end", found)
        if text.startswith("\ufeff"):
            found.add("byte_order_mark", 0)
            text = text[1:]
        keep_direction = needs_direction_marks(text)
        pieces = []
        for start, end, is_code in _segments(text):
            piece = text[start:end]
            if not is_code:
                piece = drop_invisible(text, start, end, found.add, keep_direction=keep_direction)
                piece = _compose(piece, start, found)
            pieces.append(piece)
        text = "".join(pieces)
    if _has_blank_runs(text) or _ODD_BLANKS.search(text) is not None:
        text = without_blank_runs(text, found.add)
    return text


def _segments(text: str) -> Iterator[tuple[int, int, bool]]:
    """Cut a text into prose and code, in order and without gaps."""
    at = 0
    for start, end in verbatim_spans(text):
        if at < start:
            yield at, start, False
        yield start, end, True
        at = end
    if at < len(text):
        yield at, len(text), False


def _compose(piece: str, offset: int, found: _Found) -> str:
    if unicodedata.is_normalized("NFC", piece):
        return piece
    # U+1FEF is canonically a backtick and would open inline code.
    composed = "\u1fef".join(unicodedata.normalize("NFC", p) for p in piece.split("\u1fef"))
    if composed != piece:
        for match in _GRAPHEME.finditer(piece):
            if not unicodedata.is_normalized("NFC", match.group()):
                found.add("composed", offset + match.start())
    return composed


def _replace(
    pattern: re.Pattern[str],
    text: str,
    by: Callable[[re.Match[str]], str],
    kind: str,
    found: _Found,
) -> str:
    def put(match: re.Match[str]) -> str:
        found.add(kind, match.start())
        return by(match)

    return pattern.sub(put, text)
