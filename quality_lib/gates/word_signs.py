"""What a token is for several gates at once, looked up together. Pure.

Three characters stand for every token, so that a text becomes three short strings in which gates count
and search at the speed of C; what a token stands for is kept from the first time it is met.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from quality_lib.gates.glued_words import GLUED_WORDS
from quality_lib.gates.word_kind import word_kind
from quality_lib.gates.word_pairs import place_of

LONG_LETTERS = 30
LONG, GLUED_PAIR = "L", "G"
"""Places of a token of ``LONG_LETTERS`` or more, and of two small words glued together; others stand
for the places that function words may have in a pair (``word_pairs``)."""

_MOST_KNOWN = 65_536
_LONGEST_KNOWN = 64
_STARTS = 127
"""Classes of first letters; words whose first two letters are equal are in one."""


class Signs(NamedTuple):
    """One character for every token in each string."""

    kinds: str
    """What kind of thing it is (``word_kind``)."""
    places: str
    starts: str
    """A class of its first two letters, small and capital alike."""


def signs_of(tokens: Iterable[str]) -> Signs:
    """Return the signs of tokens, in order."""
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.clear()
    signs = "".join(map(_KNOWN.__getitem__, tokens))
    return Signs(signs[::3], signs[1::3], signs[2::3])


def kinds_of(tokens: Iterable[str]) -> str:
    """Return the kinds of tokens alone."""
    return signs_of(tokens).kinds


def small_tokens_of(tokens: Iterable[str]) -> list[str]:
    """Return the tokens in small letters."""
    if len(_SMALL) > _MOST_KNOWN:
        _SMALL.clear()
    return list(map(_SMALL.__getitem__, tokens))


def equal_neighbours(signs: str) -> list[int]:
    """Return where a sign equals the one behind it."""
    # Zero bytes of the text held against itself, one sign on: some ten times as fast as a loop.
    ahead, behind = signs[1:].encode(), signs[:-1].encode()
    apart = (int.from_bytes(ahead, "big") ^ int.from_bytes(behind, "big")).to_bytes(
        len(ahead), "big"
    )
    places: list[int] = []
    at = apart.find(0)
    while at >= 0:
        places.append(at)
        at = apart.find(0, at + 1)
    return places


class _Known(dict[str, str]):
    """Signs of tokens met before: a plain dict is twice as fast as ``lru_cache``."""

    def __missing__(self, token: str) -> str:
        signs = word_kind(token) + _place(token) + _start(token)
        if len(token) <= _LONGEST_KNOWN:
            self[token] = signs
        return signs


class _Small(dict[str, str]):
    """Tokens in small letters; the very same object for equal ones, which makes sets of them cheap."""

    def __missing__(self, token: str) -> str:
        small = token.lower()
        if len(token) <= _LONGEST_KNOWN:
            self[token] = small
        return small


_KNOWN = _Known()
_SMALL = _Small()


def _place(token: str) -> str:
    if len(token) >= LONG_LETTERS:
        return LONG
    return GLUED_PAIR if token.lower() in GLUED_WORDS else place_of(token)


def _start(token: str) -> str:
    first = token.lower()[:2]
    return chr((31 * ord(first[0]) + ord(first[-1])) % _STARTS) if first else "\0"
