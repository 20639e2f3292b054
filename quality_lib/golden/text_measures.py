"""Measures of a text: facts found, words, share of a script. Pure."""

from __future__ import annotations

import regex

from quality_lib.gates.text_fold import fold, found_share
from quality_lib.golden.case import GoldenCase

__all__ = ["count_words", "fact_score", "fold", "script_share"]

# Scripts written without blanks count one word per character.
_WORD = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]"
    r"|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}])[\w'’])+"
)
_LETTER = regex.compile(r"\p{L}")


def fact_score(case: GoldenCase, text: str) -> float | None:
    """Return the share of the case's facts that occur in the text; None when it has no facts."""
    return found_share(case.facts, text)


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
