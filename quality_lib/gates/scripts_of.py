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
_WITHIN_LATIN = bytes(range(0xCD))
"""All but the first bytes of UTF-8 sequences from U+0340 on."""
_PUNCTUATION = b"\xe2"
"""The first byte of quotes, dashes and signs from U+2000 on; behind some bytes it leads to other scripts."""
_BEYOND_PUNCTUATION = re.compile(rb"\xe2(?:\x84\xa6|[\xb0-\xbf])")
_LETTERS = regex.compile(r"\p{L}+")


class ScriptRun(NamedTuple):
    """A stretch in one script other than Latin."""

    script: str
    start: int
    end: int


def foreign_runs(text: str) -> list[ScriptRun]:
    """Return the stretches that are not Latin, first to last."""
    found: list[ScriptRun] = []
    place = _BEYOND_LATIN.search(text) if _may_go_beyond(text) else None
    while place is not None:
        run = _RUNS.match(text, place.start())
        if run is not None:
            found.append(ScriptRun(run.lastgroup or "Other", run.start(), run.end()))
        place = _BEYOND_LATIN.search(text, place.end() if run is None else run.end())
    return found


def _may_go_beyond(text: str) -> bool:
    """Whether a text may hold letters other than Latin; false for nearly all that is written in Latin."""
    if text.isascii():
        return False
    written = text.encode("utf-8", "replace")
    leads = written.translate(None, _WITHIN_LATIN)
    return bool(leads.strip(_PUNCTUATION)) or _BEYOND_PUNCTUATION.search(written) is not None


def letters_by_script(text: str, runs: list[ScriptRun]) -> Counter[str]:
    """Count the letters of a text by script, given its stretches that are not Latin."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts[run.script] += run.end - run.start
    everything = sum(map(len, _LETTERS.findall(text)))
    counts[LATIN] = max(0, everything - counts.total())
    return counts
