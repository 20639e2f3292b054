"""Rows of Langfuse's observations export: the enriched one, the older one, and that of its interface. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from quality_lib.exchanges.json_fields import (
    flag,
    iso,
    mapping,
    mappings,
    seconds_between,
    text,
    texts,
    unpacked,
)
from quality_lib.exchanges.openai_bodies import exchanges_of_bodies
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Row
from quality_lib.exchanges.rows_of_choices import rows_of_choices
from quality_lib.exchanges.source import PROBE_NAME, Reader, Source, is_probe

_OTHER_NAMES = {
    "provided_model_name": ("model", "providedModelName"),
    "start_time": ("startTime",),
    "end_time": ("endTime",),
    "completion_start_time": ("completionStartTime",),
    "model_parameters": ("modelParameters",),
    "usage_details": ("usageDetails", "usage"),
    "tool_definitions": ("toolDefinitions",),
    "tool_calls": ("toolCalls",),
    "status_message": ("statusMessage",),
    "user_id": ("userId",),
}
"""Field of the enriched export → its names in older exports and in the interface."""


def langfuse(source: Source) -> Reader:
    """Read observations; only those of the type GENERATION hold an exchange."""

    def rows(data: Mapping[str, Any], key: str, line: int) -> Iterator[Row]:
        if "type" not in data and "input" not in data and "output" not in data:
            yield BadLine(key, line, "is no Langfuse observation: it has no type, input or output")
            return
        request_id = text(data.get("id")) or f"{key}:{line}"
        reason = _left_out(data, source)
        if reason is not None:
            yield Dropped(reason, key, line, request_id)
            return
        yield from rows_of_choices(
            exchanges_of_bodies(
                _request(data),
                {"choices": _choices(data), "usage": _usage(_field(data, "usage_details"))},
                id=request_id,
                service=source.service,
                started_at=iso(_field(data, "start_time")),
            ),
            _facts(data),
            key,
            line,
            request_id,
        )

    return rows


def _field(data: Mapping[str, Any], name: str) -> Any:
    for known in (name, *_OTHER_NAMES.get(name, ())):
        if data.get(known) is not None:
            return data[known]
    return None


def _left_out(data: Mapping[str, Any], source: Source) -> DropReason | None:
    metadata = mapping(unpacked(data.get("metadata")))
    output = data.get("output")
    checks = (
        (DropReason.NOT_GENERATION, text(data.get("type")).upper() not in {"GENERATION", ""}),
        (DropReason.OTHER_SERVICE, not source.serves(text(_field(data, "provided_model_name")))),
        (DropReason.OWN_PROBE, _is_probe(data, metadata)),
        (DropReason.SILENT_EXPERIMENT, bool(flag(metadata.get("is_silent_experiment")))),
        (DropReason.CACHE_HIT, bool(flag(metadata.get("cache_hit")))),
        (DropReason.FAILURE, text(data.get("level")).upper() == "ERROR"),
        # Without the field group ``io`` neither text is exported. A null answer to a question is one,
        # if tokens were used for it.
        (DropReason.REDACTED, "output" not in data),
        (DropReason.REDACTED, output is None and data.get("input") is None),
        (DropReason.NO_ANSWER, output is None and not _used_tokens(data)),
    )
    return next((reason for reason, holds in checks if holds), None)


def _is_probe(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    names = [*texts(unpacked(data.get("tags"))), _field(data, "user_id"), data.get("environment")]
    return is_probe(names, (metadata, metadata.get("headers"))) or bool(
        flag(metadata.get(PROBE_NAME))
    )


def _used_tokens(data: Mapping[str, Any]) -> bool:
    return bool(_usage(_field(data, "usage_details")).get("completion_tokens"))


def _request(data: Mapping[str, Any]) -> dict[str, Any]:
    asked = unpacked(data.get("input"))
    body = dict(mapping(unpacked(_field(data, "model_parameters"))))
    tools = _tools(unpacked(_field(data, "tool_definitions")))
    if tools:
        body["tools"] = tools
    if isinstance(asked, Mapping):
        if "messages" in asked or "prompt" in asked:
            return {**body, **asked}
        asked = [asked] if "role" in asked else json.dumps(asked, ensure_ascii=False)
    if isinstance(asked, list) and asked and len(mappings(asked)) == len(asked):
        return {**body, "messages": asked}
    if isinstance(asked, list):
        asked = text(data.get("input")) or json.dumps(asked, ensure_ascii=False)
    return {**body, "prompt": asked}


def _tools(value: Any) -> list[Mapping[str, Any]]:
    """Read tool definitions: a list, or name → definition, each perhaps JSON in a text."""
    given = list(value.values()) if isinstance(value, Mapping) else value
    found = []
    for item in given if isinstance(given, list) else ():
        tool = unpacked(item)
        if isinstance(tool, Mapping):
            found.append(tool if "function" in tool else {"type": "function", "function": tool})
    return found


def _choices(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Read the output: a response, a message, several messages, or a plain text.

    A plain text may itself be JSON (structured output), so only what looks like a message is one.
    """
    raw = data.get("output")
    output = unpacked(raw)
    if isinstance(output, Mapping) and mappings(output.get("choices")):
        return list(mappings(output["choices"]))
    if isinstance(output, list) and output and all(_is_message(m) for m in output):
        output = output[-1]
    if _is_message(output):
        reason = output.get("finish_reason")
        return [{"message": _with_calls(output, data), "finish_reason": reason}]
    content = raw if isinstance(raw, str) or raw is None else json.dumps(raw, ensure_ascii=False)
    return [{"message": _with_calls({"content": content}, data)}]


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and (
        "role" in value
        or ("content" in value and ("tool_calls" in value or "finish_reason" in value))
    )


def _with_calls(message: Mapping[str, Any], data: Mapping[str, Any]) -> Mapping[str, Any]:
    if message.get("tool_calls") or message.get("function_call"):
        return message
    given = unpacked(_field(data, "tool_calls"))
    calls = [unpacked(call) for call in given] if isinstance(given, list) else []
    return {
        **message,
        "tool_calls": [
            call if "function" in call else {"id": call.get("id"), "function": call}
            for call in calls
            if isinstance(call, Mapping)
        ],
    }


def _usage(value: Any) -> dict[str, Any]:
    usage = mapping(unpacked(value))
    return {
        "prompt_tokens": usage.get("input", usage.get("prompt_tokens", usage.get("promptTokens"))),
        "completion_tokens": usage.get(
            "output", usage.get("completion_tokens", usage.get("completionTokens"))
        ),
    }


def _facts(data: Mapping[str, Any]) -> Facts:
    first = _field(data, "completion_start_time")
    model = text(_field(data, "provided_model_name"))
    metadata = mapping(unpacked(data.get("metadata")))
    return Facts(
        model=model,
        model_served=model,
        backend=text(metadata.get("backend")) or text(metadata.get("api_base")),
        stream=first is not None,
        status=text(data.get("level")),
        tags=texts(unpacked(data.get("tags"))),
        ended_at=iso(_field(data, "end_time")),
        first_token_s=seconds_between(_field(data, "start_time"), first),
    )
