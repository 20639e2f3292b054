"""Finished answers in one line, and what the gates of level 4 say of them; no logic of its own."""

from __future__ import annotations

from typing import Any

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import GateVerdict, judge
from quality_lib.gates.level_output import output_gates
from quality_lib.gates.output_limits import OutputLimits

GATES = output_gates(OutputLimits(), LearnedBounds())
PROSE = (
    "The river rises in the hills and runs through three towns before it reaches the sea. "
    "In spring it carries the water of the melting snow, and the meadows beside it are under water. "
)
MORE = (
    "Below the last town it grows slow and wide, and barges bring stone and timber up to the mill. "
    "Herons stand at its edge in the evening and wait for fish that the current has tired. "
)


def answer(
    text: str | None,
    prompt: str = "Tell me about rivers.",
    finish: str | None = "stop",
    *,
    calls: tuple[tuple[str, str], ...] = (),
    **fields: Any,
) -> Exchange:
    """Make an exchange of one prompt and one answer."""
    own = {
        name: fields.pop(name)
        for name in ("reasoning", "token_ids", "logprobs", "entropies", "nan_logits")
        if name in fields
    }
    return Exchange(
        prompt=prompt,
        answer=Answer(text, tuple(ToolCall(*call) for call in calls), finish_reason=finish, **own),
        **fields,
    )


def found(exchange: Exchange) -> tuple[str, tuple[str, ...]]:
    """Return the outcome and the reasons of all gates of level 4 that need no model."""
    judgement = judge(exchange, GATES)
    assert "gate_crashed" not in {said.verdict.reason for said in judgement.gates}
    return judgement.outcome.value, judgement.reasons


def verdict_of(exchange: Exchange, gate: str) -> GateVerdict:
    """Return what one gate says."""
    (said,) = [said for said in judge(exchange, GATES).gates if said.gate == gate]
    return said
