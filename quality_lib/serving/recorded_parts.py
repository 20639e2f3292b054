"""What a record tells of verdicts, of very long answers and of what is no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import GateVerdict
from quality_lib.records import Outcome
from quality_lib.serving.choice_state import ChoiceState


def matters(said: GateVerdict) -> bool:
    """Passes are left out of records: they say no more than that the gate was asked."""
    verdict = said.verdict
    is_bad = verdict.outcome in {Outcome.FAILED, Outcome.SUSPECT}
    return is_bad or verdict.reason in {"gate_crashed", "gate_slow"}


def told(said: GateVerdict) -> dict[str, Any]:
    """Return a verdict as records tell it."""
    return {
        "gate": said.gate,
        "level": int(said.level),
        "outcome": said.verdict.outcome.value,
        "reason": said.verdict.reason,
        "sentence": said.verdict.sentence,
        "evidence": dict(said.verdict.evidence),
    }


def dropped(choice: ChoiceState) -> dict[str, int] | None:
    """Return how much of a very long answer was not kept."""
    lost = {"characters": choice.dropped_characters, "tokens": choice.dropped_tokens}
    return lost if any(lost.values()) else None


def without_media(exchange: Exchange) -> Exchange:
    """Leave images, sound and files out of the record: they would make it megabytes long."""
    if exchange.messages is None:
        return exchange
    return replace(exchange, messages=tuple(_slim(message) for message in exchange.messages))


def _slim(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_slim_part(part) for part in content]}


def _slim_part(part: Any) -> Any:
    if not isinstance(part, dict) or isinstance(part.get("text"), str):
        return part
    return {"type": part.get("type"), "omitted": True}
