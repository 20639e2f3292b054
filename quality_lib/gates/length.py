"""Level 4: an answer far longer or shorter than the service's healthy ones. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import output_gate, suspect, unjudged
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "answer_too_short",
        Outcome.SUSPECT,
        "The answer has fewer tokens than any healthy one of this service.",
        "gates.bounds",
        "vllm#10293",
    ),
    Reason(
        "answer_too_long",
        Outcome.SUSPECT,
        "The answer has more tokens than any healthy one of this service.",
        "gates.bounds",
        "claude-code#65823",
    ),
    Reason(
        "answer_cut_by_default",
        Outcome.SUSPECT,
        "The server's default of 16 tokens ended the answer, because the caller set no limit.",
        source="vllm#1525",
    ),
    Reason(
        "answer_length_unknown",
        Outcome.UNJUDGED,
        "No band of lengths was learned, or the server counted no tokens.",
        "gates.bounds",
    ),
)
_FORGOTTEN_LIMIT = 16
"""Tokens to which ``/v1/completions`` limits an answer when the caller sets no limit."""
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})


def length(bounds: LearnedBounds, view: View) -> Gate:
    """Suspect answers outside the learned band of lengths; a cut by the caller's own limit is no fault."""
    band = bounds.answer_tokens
    unknown = unjudged("answer_length_unknown", "There is no band or no count of tokens.")

    def look(answer: AnswerView) -> Verdict | None:
        tokens = answer.exchange.completion_tokens
        if (
            tokens == _FORGOTTEN_LIMIT
            and answer.was_cut
            and not _LIMITS & set(answer.exchange.params)
        ):
            return suspect("answer_cut_by_default", f"Cut after {tokens} tokens.", tokens=tokens)
        if band is None or tokens is None:
            return unknown
        evidence = {"tokens": tokens, "low": band.low, "high": band.high, "bound": "learned"}
        if band.high is not None and tokens > band.high:
            return suspect(
                "answer_too_long", f"{tokens} tokens, at most {band.high:g} known.", **evidence
            )
        short = band.low is not None and tokens < band.low
        if short and not answer.was_cut and not answer.answer.tool_calls:
            return suspect(
                "answer_too_short", f"{tokens} tokens, at least {band.low:g} known.", **evidence
            )
        return None

    return output_gate("length", view, look, REASONS)
