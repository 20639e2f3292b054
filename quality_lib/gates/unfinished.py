"""Level 4: the answer ended by itself where no end was to be expected. Pure.

An end token drawn in the middle of a sentence leaves a short fluent answer that no other gate can tell: the
engine says *stop*, and each word is right. A reference language model knows how likely an end is at that
place. The *closing* is its log-probability that the text ends there, or at least its line or sentence.

Lists, numbers and languages that a small model hardly knows may end anywhere for it, so only English prose
is judged, and only when its last sign closes nothing.
"""

from __future__ import annotations

import math
import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.english import is_english_prose
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, snippet, suspect, unjudged
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Readings
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "ended_midway",
        Outcome.SUSPECT,
        "The answer ended by itself in the middle of a sentence.",
        "gates.output.min_closing",
        "vllm#10293",
    ),
    Reason(
        "end_unknown",
        Outcome.UNJUDGED,
        "The limit or the caller ended the answer, or the reference model did not read its end.",
    ),
)
_LEAST_TOKENS = 6
"""Of fewer, such as a name or a number, each may be all that was asked for."""
_CLOSING_SIGNS = ".!?:;…)]}>\"'`*_|~”’»。！？"
_CONTINUES = re.compile(
    r"\b(?:complete|continue|continuation|finish|fill|repeat|copy|exact|verbatim|quote|word for word|blank|autocomplete|prefix"
    r"|first (?:\w+ )?(?:words?|half|part|letters?|characters?)|(?:say|reply|respond|answer|write|print|output)(?: only| just| with)* [\"'`“«])"
)
_SHOWN = 40
_ENDS = frozenset({"stop", "end_turn", "eos"})


def unfinished(limits: OutputLimits, view: View, readings: Readings) -> Gate:
    """Suspect English prose that stopped by itself where a reference model expects more of the line."""
    unknown = unjudged("end_unknown", "Nothing tells whether it was at its end.")

    def look(answer: AnswerView) -> Verdict | None:
        reading = readings(answer.exchange)
        if not _ended_by_itself(answer) or reading is None or reading.closing is None:
            return unknown
        if not reading.closing < limits.min_closing or len(reading.logprobs) < _LEAST_TOKENS:
            return None
        if answer.text[-1:].isspace() or answer.text[-1:] in _CLOSING_SIGNS or _may_end(answer):
            return None
        tail = answer.text[-_SHOWN:]
        return suspect(
            "ended_midway",
            f"It ends in {snippet(tail)!r}, where an end has a chance of {math.exp(reading.closing):.1g}.",
            closing=round(reading.closing, 2),
            least=limits.min_closing,
        )

    return output_gate("unfinished", view, look, REASONS)


def _ended_by_itself(answer: AnswerView) -> bool:
    """Whether the model drew an end token: a stop string of the caller's may fall anywhere."""
    params = answer.exchange.params
    is_stopped = any(params.get(name) for name in ("stop", "stop_token_ids"))
    return (answer.answer.finish_reason or "").lower() in _ENDS and not is_stopped


def _may_end(answer: AnswerView) -> bool:
    """Whether a text of this kind, or the caller's wish, lets it end anywhere."""
    if answer.fences or answer.answer.tool_calls or not is_english_prose(answer):
        return True
    wishes = answer.wishes
    if any((wishes.word_list, wishes.nonsense, wishes.code)):
        return True
    # What is copied or continued ends where its model ended.
    return _CONTINUES.search(wishes.small) is not None
