"""Recognises an answer that has collapsed into a loop. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PERIOD_CHARACTERS = 400
MIN_COVERED_SHARE = 0.6
MIN_REPEATS = 12
MIN_LOOP_CHARACTERS = 24
# A long unit cannot come twelve times in a short answer, so length stands in for count.
MIN_LONG_REPEATS = 6
MIN_LONG_LOOP_CHARACTERS = 300


@dataclass(frozen=True)
class Loop:
    """A unit that is repeated up to the end of a text."""

    unit: str
    repeats: int
    covered_share: float


def closing_loop(text: str) -> Loop | None:
    """Find the smallest unit that is repeated to the end and makes up most of the text.

    Lists, tables and counting differ from row to row, so no unit covers them.
    """
    return _loop_in(text) or _loop_in(" ".join(text.split()))


def _loop_in(text: str) -> Loop | None:
    for period in range(1, min(MAX_PERIOD_CHARACTERS, len(text) // MIN_LONG_REPEATS) + 1):
        length = _periodic_tail(text, period)
        if length < MIN_COVERED_SHARE * len(text):
            continue
        repeats = length // period
        if (repeats >= MIN_REPEATS and length >= MIN_LOOP_CHARACTERS) or (
            repeats >= MIN_LONG_REPEATS and length >= MIN_LONG_LOOP_CHARACTERS
        ):
            return Loop(text[-period:], repeats, length / len(text))
    return None


def _periodic_tail(text: str, period: int) -> int:
    """Length of the longest end of the text in which every character equals the one a period before."""
    position = len(text) - 1
    while position >= period and text[position] == text[position - period]:
        position -= 1
    same = len(text) - 1 - position
    return same + period if same else 0
