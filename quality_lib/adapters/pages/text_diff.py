"""Two texts made fit to be shown side by side: visible, cut to size, differences marked. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

LONGEST_SHOWN = 3000
"""Characters of an answer that a report shows."""
_LEAD = 200
"""Common characters kept before the first difference when a long common start is left out."""
_MOST_TOKENS = 3000
_MOST_PAIRS = 30_000
"""Pairs of equal tokens up to which the comparison is cheap; prose of this length has some 5,000."""

# Scripts without spaces between words are compared by character (with its combining marks): Thai,
# Lao, Myanmar, Khmer, kana, Han and their extensions.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_TOKEN = re.compile(rf"\s*(?:[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+|[^\w\s])|\s+")

_NEWLINES = re.compile(r"\n{5,}")
_BLANKS = re.compile(r"[ \t]{41,}")
# Everything that has no shape of its own or turns the text around it: control characters, bidi
# controls, zero-width spaces, tags and lone surrogates. The joiners U+200C and U+200D stay, they
# are part of Persian words and of emoji.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f\ufdd0-\ufdef"
    r"\ufffe\uffff]"
)


@dataclass(frozen=True)
class Piece:
    """A stretch of text that both sides have, or only this one."""

    text: str
    is_own: bool


@dataclass(frozen=True)
class Side:
    """One of two texts, as it is shown."""

    pieces: tuple[Piece, ...]
    skipped: int
    """Characters left out at the start; the other side has the same ones."""
    more: int
    """Characters left out at the end."""


@dataclass(frozen=True)
class SideBySide:
    """Two texts with their differences."""

    before: Side
    after: Side
    shared: float
    """Share of the shown characters that both have, in order; 1 for equal texts."""


def visible(text: str) -> str:
    """Show what cannot be seen: control characters by their picture or code, long gaps by a count."""
    text = text.replace("\r\n", "\n")
    text = _NEWLINES.sub(lambda m: f"\n⟨{len(m[0]):,} line ends⟩\n", text)
    text = _BLANKS.sub(lambda m: f" ⟨{len(m[0]):,} blanks⟩ ", text)
    return _INVISIBLE.sub(lambda m: _picture(ord(m[0])), text)


def shorten(text: str, longest: int) -> tuple[str, int]:
    """Return the visible start of a text and how many characters were left out."""
    if len(text) <= longest:
        return visible(text), 0
    return visible(text[:longest]), len(text) - longest


def side_by_side(before: str, after: str, longest: int = LONGEST_SHOWN) -> SideBySide:
    """Mark what only one of two texts has.

    The work is bounded: long texts are cut after ``longest`` characters, from a little before the
    first difference, and texts that repeat themselves too often are compared by their common start
    and end alone.
    """
    start = _common_start(before, after)
    skipped = start - _LEAD if before != after and start > 4 * _LEAD else 0
    first, first_more = shorten(before[skipped:], longest)
    second, second_more = shorten(after[skipped:], longest)
    left, right = _TOKEN.findall(first), _TOKEN.findall(second)
    keep_left, keep_right = _matched(left, right)
    length = sum(map(len, left)) + sum(map(len, right))
    same = sum(len(t) for t, kept in zip(left, keep_left, strict=True) if kept)
    same += sum(len(t) for t, kept in zip(right, keep_right, strict=True) if kept)
    return SideBySide(
        before=Side(_pieces(left, keep_left), skipped, first_more),
        after=Side(_pieces(right, keep_right), skipped, second_more),
        shared=same / length if length else 1.0,
    )


def _picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _common_start(a: Sequence[object], b: Sequence[object]) -> int:
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _matched(left: list[str], right: list[str]) -> tuple[list[bool], list[bool]]:
    """Return for each token whether the other side has it at the same place."""
    start = _common_start(left, right)
    end = _common_start(left[start:][::-1], right[start:][::-1])
    a, b = left[start : len(left) - end], right[start : len(right) - end]
    keep_a, keep_b = [False] * len(a), [False] * len(b)
    counts = Counter(b)
    pairs = sum(n * counts[token] for token, n in Counter(a).items())
    if max(len(a), len(b)) <= _MOST_TOKENS and pairs <= _MOST_PAIRS:
        for i, j, size in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
            # A lone comma or blank in the middle of a change is chance, not agreement.
            if any(any(c.isalnum() for c in token) for token in a[i : i + size]):
                keep_a[i : i + size] = keep_b[j : j + size] = [True] * size
    return (
        [True] * start + keep_a + [True] * end,
        [True] * start + keep_b + [True] * end,
    )


def _pieces(tokens: list[str], kept: list[bool]) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    run: list[str] = []
    for index, token in enumerate(tokens):
        run.append(token)
        if index + 1 == len(tokens) or kept[index + 1] != kept[index]:
            text, is_own = "".join(run), not kept[index]
            bare = text.lstrip()
            # The blanks before a marked word stay unmarked, unless they are all there is.
            if is_own and bare and bare != text:
                pieces.append(Piece(text[: len(text) - len(bare)], False))
                text = bare
            pieces.append(Piece(text, is_own))
            run = []
    return tuple(pieces)
