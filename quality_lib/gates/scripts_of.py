"""Which scripts a text is written in. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import regex

LATIN = "Latin"
CJK = "CJK"
"""Han with the two Japanese syllabaries: both Chinese and Japanese are written in it."""

_RUNS = regex.compile(
    r"(?P<CJK>[\p{Han}\p{Hiragana}\p{Katakana}ー々]+)|(?P<Hangul>\p{Hangul}+)|(?P<Cyrillic>\p{Cyrillic}[\p{Cyrillic}\u0301]*)"
    r"|(?P<Greek>\p{Greek}+)|(?P<Arabic>\p{Arabic}[\p{Arabic}\u0640\u064b-\u065f\u200c]*)|(?P<Hebrew>\p{Hebrew}+)|(?P<Thai>\p{Thai}+)"
    r"|(?P<Devanagari>\p{Devanagari}+)|(?P<Bengali>\p{Bengali}+)|(?P<Tamil>\p{Tamil}+)|(?P<Georgian>\p{Georgian}+)"
    r"|(?P<Armenian>\p{Armenian}+)|(?P<Other>[\p{L}--\p{Latin}--\p{Common}--\p{Lm}\p{Mn}--\p{Inherited}]+)",
    regex.VERSION1,
)
_BEYOND_LATIN = re.compile(r"[\u0370-\u1dff\u1f00-\u1fff\u2126\u2c00-\U0010ffff]")
"""Where letters other than Latin can stand: the search is many times faster than the runs."""
_LETTERS = regex.compile(r"\p{L}+")


class ScriptRun(NamedTuple):
    """A stretch in one script other than Latin."""

    script: str
    start: int
    end: int


def foreign_runs(text: str) -> list[ScriptRun]:
    """Return the stretches that are not Latin, first to last."""
    first = None if text.isascii() else _BEYOND_LATIN.search(text)
    if first is None:
        return []
    found = _RUNS.finditer(text, first.start())
    return [ScriptRun(m.lastgroup or "Other", m.start(), m.end()) for m in found]


def letters_by_script(text: str, runs: list[ScriptRun]) -> Counter[str]:
    """Count the letters of a text by script, given its stretches that are not Latin."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts[run.script] += run.end - run.start
    everything = sum(map(len, _LETTERS.findall(text)))
    counts[LATIN] = max(0, everything - counts.total())
    return counts
