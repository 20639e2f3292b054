"""Level 4: blanks and line ends without end. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.text_fold import listed
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "blank_tail",
        Outcome.FAILED,
        "The answer ends in blanks or line ends up to the limit of tokens.",
        "gates.output.blank_tail",
        "vllm#38696, vllm#4093, sglang#8250",
    ),
    Reason(
        "blank_run",
        Outcome.SUSPECT,
        "A run of blanks or line ends inside the answer is longer than any padding.",
        "gates.output.blank_run",
        "vllm#38696",
    ),
    Reason(
        "blank_ending",
        Outcome.SUSPECT,
        "The answer ended by itself, but only after very many blanks.",
        "gates.output.blank_run",
        "vllm#38696",
    ),
    Reason(
        "blank_gaps",
        Outcome.SUSPECT,
        "Again and again several empty lines tear the answer apart.",
        source="vllm#38696",
    ),
    Reason(
        "blank_mostly",
        Outcome.SUSPECT,
        "The answer is blanks for the most part.",
        "gates.output.min_characters",
        "NeMo-RL#2631, vllm#2255",
    ),
)
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_RUN = re.compile(rf"[\s{_INVISIBLE}]{{15,}}")
_EMPTY_LINES = 15
"""Empty lines in a row; spacing of pages and poems stays below."""
_GAP = re.compile(r"(?:[ \t]*\n){4,}")
_GAPS, _LINES_IN_GAPS = 2, 12
"""Runs of three empty lines and more, and the line ends in all of them; healthy answers hold not one."""
_ROOM = frozenset(
    listed(
        "space spaces spacing blank blanks empty line lines page pages form forms worksheet letter letters certificate cover room gap gaps"
    )
)
"""Words of a prompt that may wish for room to write in."""


def whitespace(limits: OutputLimits, view: View) -> Gate:
    """Fail a blank tail up to the limit; suspect blanks that fill an answer."""

    def look(answer: AnswerView) -> Verdict | None:
        text = answer.text
        kept = len(text.rstrip()) if text[-1:].isspace() else len(text.rstrip(_INVISIBLE))
        tail = len(text) - kept
        if kept and tail >= limits.blank_tail:
            if answer.may_be_cut:
                return _found(failed, "blank_tail", kept, tail)
            if tail >= limits.blank_run or text.count("\n", kept) >= _EMPTY_LINES:
                return _found(suspect, "blank_ending", kept, tail)
        return _inside(answer, kept)

    def _inside(answer: AnswerView, kept: int) -> Verdict | None:
        text = answer.text
        # Both tests are one search for a short text, far cheaper than the pattern.
        if "        " not in text and "\n\n\n\n" not in text and "\n \n" not in text:
            return None
        for match in _RUN.finditer(text, 0, kept):
            is_long = len(match[0]) >= limits.blank_run or match[0].count("\n") >= _EMPTY_LINES
            if is_long and not answer.wishes.drawing:
                return _found(suspect, "blank_run", match.start(), len(match[0]))
        gaps = list(_GAP.finditer(text, len(text) - len(text.lstrip()), kept))
        lines = sum(gap[0].count("\n") for gap in gaps)
        if len(gaps) >= _GAPS and lines >= _LINES_IN_GAPS and not _wants_room(answer):
            return _found(suspect, "blank_gaps", gaps[0].start(), lines)
        blanks = kept - len("".join(text[:kept].split()))
        if (
            kept >= 4 * limits.min_characters
            and blanks > 0.8 * kept
            and not (answer.wishes.drawing or answer.fences)
        ):
            return _found(suspect, "blank_mostly", 0, blanks)
        return None

    return output_gate("whitespace", view, look, REASONS)


def _wants_room(answer: AnswerView) -> bool:
    wishes = answer.wishes
    if answer.fences or wishes.drawing or wishes.repeats or wishes.code:
        return True
    return not _ROOM.isdisjoint(wishes.words)


def _found(say: Callable[..., Verdict], reason: str, start: int, blanks: int) -> Verdict:
    return say(
        reason, f"{blanks} blank characters from offset {start} on.", start=start, blanks=blanks
    )
