"""Level 4: the answer ended by itself, and was not stopped because it had gone wrong. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.level_stream import ENGINE_FINISH
from quality_lib.gates.output_gate import failed, output_gate
from quality_lib.records import Outcome, Verdict

GUARD_FINISH = "quality_stop"
"""The finish reason of an answer that the guarded server ended at level 3."""

REASONS = (
    Reason(
        "ending_quality_stop",
        Outcome.FAILED,
        "The guarded server ended the answer because its stream had gone wrong.",
    ),
    Reason(
        "ending_repetition",
        Outcome.FAILED,
        "The engine ended the answer because it repeated itself.",
    ),
)


def ending(view: View) -> Gate:
    """Fail an answer that level 3 or the engine had to end: what is left of it may look healthy."""
    return output_gate("ending", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    reason = answer.answer.finish_reason
    if reason == GUARD_FINISH:
        return failed("ending_quality_stop", "The guard ended the answer.", finish_reason=reason)
    if reason == ENGINE_FINISH:
        return failed("ending_repetition", "The engine ended a repetition.", finish_reason=reason)
    return None
