"""The kinds of exchanges that a sample must all hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quality_lib.exchanges.row import Scored

SHORT, LONG = 200, 2000
"""Characters of an answer; typical chat answers lie between."""
_STRUCTURED = {"json_object", "json_schema", "structural_tag", "grammar", "regex"}
_GUIDED = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
_LONGEST_NAME = 80


class Length(StrEnum):
    """Length of an answer, tool calls and reasoning included."""

    SHORT = "short"
    MEDIUM = "medium"
    LONG = "long"


@dataclass(frozen=True)
class Stratum:
    """What tells one kind from another."""

    model: str
    tools: bool
    structured: bool
    stream: bool
    length: Length

    def __str__(self) -> str:
        words = [f"model={self.model or '?'}"]
        words += [
            f"{name}={'yes' if value else 'no'}"
            for name, value in (
                ("tools", self.tools),
                ("structured", self.structured),
                ("stream", self.stream),
            )
        ]
        return " ".join([*words, f"length={self.length}"])


def stratum_of(row: Scored) -> Stratum:
    """Return the kind of an exchange."""
    exchange, answer = row.exchange, row.exchange.answer
    calls = answer.tool_calls if answer else ()
    size = sum(len(call.arguments) for call in calls)
    if answer is not None:
        size += len(answer.text or "") + len(answer.reasoning or "")
    wanted = (exchange.response_format or {}).get("type")
    return Stratum(
        model=(row.facts.model or row.facts.model_served)[:_LONGEST_NAME],
        tools=bool(exchange.tools or calls),
        structured=(isinstance(wanted, str) and wanted in _STRUCTURED)
        or any(exchange.params.get(name) for name in _GUIDED),
        stream=bool(row.facts.stream),
        length=Length.SHORT if size < SHORT else Length.MEDIUM if size < LONG else Length.LONG,
    )
