"""Pairs of English function words that no sentence has in this order. Pure."""

from __future__ import annotations

import re
from itertools import product

from quality_lib.gates.text_fold import listed

_FINITE = listed("is are was were has have had does did would could should")
_BEFORE = (
    listed("the a an every my your our their its"),
    listed("of into upon toward during from the"),
)
_AFTER = (
    (
        *_FINITE,
        *listed(
            "of on at to for from with by and or but because if than then into upon toward during been be the a an"
        ),
        *listed(
            "he she they we you them him us me it which who that these those my your his our their"
        ),
    ),
    (*_FINITE, "and", "or", "but", "because"),
)
PAIRS = frozenset(
    pair for first, second in zip(_BEFORE, _AFTER, strict=True) for pair in product(first, second)
)
_NOWHERE = "0"


def place_of(word: str) -> str:
    """Return one character for the places that a word can have in the pairs."""
    return _PLACES.get(word, _NOWHERE)


def may_hold_pair(places: str) -> bool:
    """Whether one of the pairs stands in a text, given the places of its words one after the other."""
    return any(found(places) is not None for found in _FOUND)


def _places(word: str) -> str:
    """Add a bit for every list that holds the word; the first two are of words before."""
    lists = (*_BEFORE, *_AFTER)
    return chr(ord(_NOWHERE) + sum(1 << at for at, words in enumerate(lists) if word in words))


_PLACES = {word: _places(word) for pair in PAIRS for word in pair}


def _class(bit: int) -> str:
    return "".join(
        re.escape(sign) for sign in sorted(set(_PLACES.values())) if ord(sign) - 48 & 1 << bit
    )


_FOUND = tuple(re.compile(f"[{_class(at)}][{_class(at + 2)}]").search for at in (0, 1))
