"""Measures of a text: facts found, words, share of a script. Pure."""

from __future__ import annotations

import unicodedata

import regex

from quality_lib.golden.case import GoldenCase

# Scripts written without blanks count one word per character.
_WORD = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]"
    r"|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}])[\w'’])+"
)
_LETTER = regex.compile(r"\p{L}")


def fact_score(case: GoldenCase, text: str) -> float | None:
    """Return the share of the case's facts that occur in the text; None when it has no facts."""
    if not case.facts:
        return None
    folded = fold(text)
    found = sum(any(fold(either) in folded for either in fact.split("|")) for fact in case.facts)
    return found / len(case.facts)


def fold(text: str) -> str:
    """Make two spellings of the same characters equal, runs of blanks included."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def count_words(text: str) -> int:
    """Count words; in scripts without blanks every character is one."""
    return len(_WORD.findall(text))


def script_share(text: str, script: str) -> float | None:
    """Return the share of letters that belong to a Unicode script; None without a letter."""
    letters = _LETTER.findall(text)
    if not letters:
        return None
    own = regex.compile(rf"\p{{Script={script}}}")
    return sum(own.match(letter) is not None for letter in letters) / len(letters)
