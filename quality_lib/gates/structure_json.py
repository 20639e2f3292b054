"""Level 4: an answer that was asked for as JSON is JSON and fits its schema. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from quality_lib.gates.answer_view import AnswerView, View
from quality_lib.gates.gate import Gate, Reason
from quality_lib.gates.json_text import parse_json, schema_problem
from quality_lib.gates.output_gate import failed, output_gate, suspect, unjudged
from quality_lib.records import Outcome, Verdict

REASONS = (
    Reason(
        "answer_json_invalid",
        Outcome.FAILED,
        "JSON was asked for by the response format and the answer is none.",
        source="vllm#38696, vllm#19565",
    ),
    Reason(
        "answer_json_glued",
        Outcome.FAILED,
        "Several JSON values are glued together.",
        source="hermes-agent#6841",
    ),
    Reason(
        "answer_json_cut",
        Outcome.SUSPECT,
        "The limit of tokens ended the JSON before it was whole.",
        source="vllm#38696",
    ),
    Reason(
        "answer_schema_mismatch",
        Outcome.FAILED,
        "The JSON departs from the schema of the response format.",
        source="K2-Vendor-Verifier",
    ),
    Reason(
        "answer_schema_unusable", Outcome.UNJUDGED, "The schema of the request itself is at fault."
    ),
)
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)


def structure_json(view: View) -> Gate:
    """Fail an answer that departs from the JSON that the request asked for."""
    return output_gate("structure_json", view, _look, REASONS)


def _look(answer: AnswerView) -> Verdict | None:
    if answer.exchange.response_format is None:
        return None
    wanted = wanted_json(answer.exchange.response_format)
    if wanted is None or (answer.answer.tool_calls and not answer.text.strip()):
        return None
    if not answer.text.strip():
        # The gate "emptiness" tells it better.
        return None
    fenced = _FENCED.match(answer.text)
    text = fenced[1] if fenced else answer.text
    value, problem = parse_json(text)
    if problem is not None:
        return _no_json(answer, text, problem)
    if not wanted:
        return None
    try:
        problem = schema_problem(value, wanted)
    except Exception as error:  # noqa: BLE001  any fault of a foreign schema says nothing of the answer
        return unjudged(
            "answer_schema_unusable", f"The schema cannot be used: {type(error).__name__}."
        )
    if problem is None:
        return None
    return failed(
        "answer_schema_mismatch", f"The answer departs from its schema at {problem}", at=problem
    )


def wanted_json(response_format: Mapping[str, Any] | str | None) -> Mapping[str, Any] | None:
    """Return the schema that a response format asks for; empty for any JSON, None for no JSON."""
    if isinstance(response_format, str):
        response_format = {"type": response_format}
    kind = str((response_format or {}).get("type"))
    if kind in {"json_object", "json"}:
        return {}
    if kind != "json_schema" or response_format is None:
        return None
    outer = response_format.get("json_schema")
    if not isinstance(outer, Mapping):
        outer = response_format
    schema = outer.get("schema")
    return schema if isinstance(schema, Mapping) else {}


def _no_json(answer: AnswerView, text: str, problem: str) -> Verdict:
    evidence = {"problem": problem, "characters": len(text)}
    if "Extra data" in problem:
        return _after_json(text, problem, evidence)
    if answer.was_cut:
        return suspect("answer_json_cut", f"The JSON was cut: {problem}", **evidence)
    return failed("answer_json_invalid", f"The answer is no JSON: {problem}", **evidence)


def _after_json(text: str, problem: str, evidence: Mapping[str, Any]) -> Verdict:
    end = json.JSONDecoder().raw_decode(text.lstrip())[1]
    rest = text.lstrip()[end:].lstrip()
    if rest[:1] in {"{", "["}:
        return failed("answer_json_glued", "Several JSON values are glued together.", **evidence)
    return failed("answer_json_invalid", f"Text follows the JSON: {problem}", **evidence)
