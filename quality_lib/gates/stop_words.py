"""Level 4: the answer goes on behind a text that should have ended it. Pure."""

from __future__ import annotations

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.output_gate import failed, output_gate
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "stop_ignored",
        Outcome.FAILED,
        "A stop text that the caller set stands in the answer.",
        source="vllm#4180, vllm#50767",
    ),
)


def stop_words(view: View) -> Gate:
    """Fail an answer that holds one of the caller's own stop texts."""
    return output_gate("stop_words", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    params = answer.exchange.params
    stops = params.get("stop")
    if not stops or params.get("include_stop_str_in_output"):
        return None
    for stop in stops if isinstance(stops, list | tuple) else [stops]:
        at = answer.text.find(stop) if isinstance(stop, str) and stop else -1
        if at >= 0:
            return failed(
                "stop_ignored",
                f"The stop text {stop[:40]!r} stands in it.",
                stop=stop[:40],
                start=at,
            )
    return None
