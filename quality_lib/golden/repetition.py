"""Recognises an answer that has collapsed into a loop. Pure."""

from __future__ import annotations

from quality_lib.gates.periodic import Run, closing_run

MAX_PERIOD_CHARACTERS = 400
MIN_COVERED_SHARE = 0.6
MIN_REPEATS = 12
MIN_LOOP_CHARACTERS = 24
# A long unit cannot come twelve times in a short answer, so length stands in for count.
MIN_LONG_REPEATS = 6
MIN_LONG_LOOP_CHARACTERS = 300


def closing_loop(text: str) -> Run | None:
    """Find the smallest unit that is repeated to the end and makes up most of the text.

    Lists, tables and counting differ from row to row, so no unit covers them.
    """
    return _loop_in(text) or _loop_in(" ".join(text.split()))


def _loop_in(text: str) -> Run | None:
    run = closing_run(text, MAX_PERIOD_CHARACTERS)
    if run is None or run.length < MIN_COVERED_SHARE * len(text):
        return None
    is_short = run.copies >= MIN_REPEATS and run.length >= MIN_LOOP_CHARACTERS
    is_long = run.copies >= MIN_LONG_REPEATS and run.length >= MIN_LONG_LOOP_CHARACTERS
    return run if is_short or is_long else None
