"""What all gates of level 4 have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.records import Outcome, Verdict

SNIPPET_CHARACTERS = 60

Look = Callable[[AnswerView], Verdict | None]
"""Says what is wrong with an answer; None when nothing is."""


def output_gate(name: str, view: View, look: Look, reasons: tuple[Reason, ...]) -> Gate:
    """Make a gate of level 4; it passes what ``look`` finds nothing in."""
    fine = Verdict(Outcome.PASSED, f"{name}_ok", f"Nothing found by {name}.")
    nothing = Verdict(Outcome.UNJUDGED, f"{name}_no_answer", "There is no answer to judge.")

    def judge(exchange: Exchange) -> Verdict:
        answer = view(exchange)
        return nothing if answer is None else look(answer) or fine

    common = (
        Reason(fine.reason, Outcome.PASSED, "Nothing was found."),
        Reason(nothing.reason, Outcome.UNJUDGED, "The exchange holds no answer."),
    )
    return Gate(name, Level.OUTPUT, judge, (*reasons, *common))


def suspect(reason: str, sentence: str, **evidence: Any) -> Verdict:
    """Say that something looks wrong."""
    return Verdict(Outcome.SUSPECT, reason, sentence, evidence)


def failed(reason: str, sentence: str, **evidence: Any) -> Verdict:
    """Say that something is wrong."""
    return Verdict(Outcome.FAILED, reason, sentence, evidence)


def unjudged(reason: str, sentence: str, **evidence: Any) -> Verdict:
    """Say that nothing can be said."""
    return Verdict(Outcome.UNJUDGED, reason, sentence, evidence)


def snippet(text: str) -> str:
    """Cut a piece of an answer to what a sentence can hold."""
    text = text.strip("\n")
    return text if len(text) <= SNIPPET_CHARACTERS else text[: SNIPPET_CHARACTERS - 1] + "…"
