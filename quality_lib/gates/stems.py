"""Words and starts of words that tell what a prompt is about, looked up for many subjects at once. Pure.

What a word tells is worked out when it is first met and kept, so that reading a prompt is one look
into a dict per word, however many subjects there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

_SHORTEST = 2
"""Letters of the shortest start of a word that tells a subject."""
_MOST_KNOWN = 65_536
_LONGEST_KNOWN = 64


@dataclass(frozen=True, eq=False)
class Stems:
    """What tells one subject: starts of words, whole words, phrases of several, and parts of any text."""

    starts: frozenset[str]
    words: frozenset[str]
    phrases: tuple[str, ...]
    parts: tuple[str, ...]


def stems(starts: str = "", words: str = "", parts: str = "") -> Stems:
    """Make stems of lists between blanks; ``_`` is a blank inside one."""
    several = [f" {one} " for one in words.split() if "_" in one]
    several += [f" {one}" for one in starts.split() if "_" in one]
    return Stems(
        frozenset(one for one in starts.split() if "_" not in one),
        frozenset(one for one in words.split() if "_" not in one),
        tuple(one.replace("_", " ") for one in several),
        tuple(one.replace("_", " ") for one in parts.split()),
    )


class StemIndex:
    """Finds the subjects of words; a set of subjects is a number with one bit for each."""

    def __init__(self, every: Sequence[Stems]) -> None:
        self._bits = {one: 1 << number for number, one in enumerate(every)}
        self._known = _Known(self._bits)
        self._shift = self._known.shift

    def told_by(self, words: Iterable[str]) -> int:
        """Return what the words tell, to be read by ``tells`` and ``may_hold_phrase``."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        return reduce(or_, map(self._known.__getitem__, words), 0)

    def tells(self, told: int, subject: Stems) -> bool:
        """Whether one of the words is, or starts as, a stem of the subject."""
        return bool(told & self._bits[subject])

    def may_hold_phrase(self, told: int, subject: Stems) -> bool:
        """Whether one of the words is the first of a phrase of the subject."""
        return bool(told >> self._shift & self._bits[subject])


class _Known(dict[str, int]):
    """What words met before tell: the subjects, and above them those with a phrase that it begins."""

    def __init__(self, bits: dict[Stems, int]) -> None:
        super().__init__()
        self.shift = len(bits)
        self._starts: dict[str, int] = {}
        self._words: dict[str, int] = {}
        self._longest = max((len(one) for subject in bits for one in subject.starts), default=0)
        for subject, bit in bits.items():
            for start in subject.starts:
                self._starts[start] = self._starts.get(start, 0) | bit
            for word in subject.words:
                self._words[word] = self._words.get(word, 0) | bit
            for phrase in subject.phrases:
                first = phrase.split()[0]
                self._words[first] = self._words.get(first, 0) | bit << self.shift

    def __missing__(self, word: str) -> int:
        told = self._words.get(word, 0)
        for size in range(_SHORTEST, min(len(word), self._longest) + 1):
            told |= self._starts.get(word[:size], 0)
        if len(word) <= _LONGEST_KNOWN:
            self[word] = told
        return told
