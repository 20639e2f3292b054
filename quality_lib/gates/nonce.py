"""Level 4: a planted text comes back. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate
from quality_lib.gates.text_fold import fold
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "nonce_missing",
        Outcome.FAILED,
        "The planted text does not come back: the answer belongs to somebody else's request.",
        source="LMCache#4385, vllm#9910, vllm#56009",
    ),
)


def nonce(view: View) -> Gate:
    """Fail an answer that does not hold the nonce of its request."""
    return output_gate("nonce", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    planted = answer.exchange.nonce
    if not planted:
        return None
    said = answer.text + "".join(call.arguments for call in answer.answer.tool_calls)
    if planted in said or fold(planted) in fold(said):
        return None
    return failed(
        "nonce_missing", f"The answer does not hold {planted[:60]!r}.", nonce=planted[:60]
    )
