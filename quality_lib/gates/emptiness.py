"""Level 4: an answer that holds nothing although tokens were used. Pure."""

from __future__ import annotations

import re

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate, suspect, unjudged
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "answer_null",
        Outcome.FAILED,
        "The content is null although tokens were generated, and no tool was called.",
        source="vllm#41902, vllm#45736",
    ),
    Reason(
        "answer_blank",
        Outcome.FAILED,
        "The content is empty or holds only blanks, and no tool was called.",
        source="vllm#3063, lmstudio#1602",
    ),
    Reason(
        "answer_only_a_mark",
        Outcome.SUSPECT,
        "The content is a punctuation mark or two that nobody asked for.",
        source="vllm#3063",
    ),
    Reason(
        "answer_only_reasoning",
        Outcome.SUSPECT,
        "Everything was spent on reasoning and no answer followed.",
        source="adk-python#1357",
    ),
    Reason(
        "tool_call_promised",
        Outcome.FAILED,
        "The finish reason says that a tool was called, but there is no call.",
        source="vllm#45167",
    ),
    Reason(
        "answer_withheld",
        Outcome.UNJUDGED,
        "The request was aborted or filtered, or one token was wanted, so nothing had to come.",
    ),
)
_WITHHELD = frozenset({"content_filter", "abort", "cancelled", "error", "refusal"})
_BLANKS = " \t\r\n\v\f\u00a0\u3000\u200b\u200c\u200d\u2060\ufeff"
_IDLE_MARKS, _FEW_MARKS = ".,;:)]}»”'\"`", 3
_ASKED_WORDS = 3
_OF_MARKS = re.compile(
    r"\b(?:mark|sign|symbol|character|punctuat|operator|regex|dot|period|comma|colon|bracket|delimit|separat|full stop"
    r"|nothing|blank|empty)|[\"'`“«(][^\w\s]{1,3}[\"'`”»)]"
)


def emptiness(view: View) -> Gate:
    """Fail an answer without content or call."""
    return output_gate("emptiness", view, _look, REASONS)


def _look(view: AnswerView) -> Verdict | None:
    answer = view.answer
    if answer.tool_calls:
        return None
    if answer.finish_reason == "tool_calls":
        return failed("tool_call_promised", "It ended with a tool call that is not there.")
    held = view.text.strip(_BLANKS)
    if held:
        return _only_a_mark(view, held) if len(held) <= _FEW_MARKS else None
    tokens = view.exchange.completion_tokens
    if answer.finish_reason in _WITHHELD or view.exchange.params.get("max_tokens") == 1:
        return unjudged("answer_withheld", "Nothing came, and nothing had to.")
    if answer.reasoning and answer.reasoning.strip():
        return suspect(
            "answer_only_reasoning",
            f"{len(answer.reasoning)} characters of reasoning, and no answer.",
            reasoning_characters=len(answer.reasoning),
            completion_tokens=tokens,
        )
    if answer.text is None:
        return failed(
            "answer_null",
            f"The content is null; {tokens if tokens is not None else 'an unknown number of'} tokens used.",
            completion_tokens=tokens,
        )
    return failed(
        "answer_blank",
        f"The answer is {len(answer.text)} blank characters.",
        characters=len(answer.text),
        completion_tokens=tokens,
    )


def _only_a_mark(view: AnswerView, held: str) -> Verdict | None:
    """A lone full stop answers no question; a question mark, a sign or a star may."""
    if held.strip(_IDLE_MARKS) or view.was_cut or len(view.wishes.words) < _ASKED_WORDS:
        return None
    wishes = view.wishes
    if any((wishes.copying, wishes.drawing, wishes.code, wishes.nonsense, wishes.free)):
        return None
    if _OF_MARKS.search(wishes.small):
        return None
    return suspect(
        "answer_only_a_mark", f"The answer is {held!r} and nothing else.", characters=len(held)
    )
