"""Rows of any log of JSON objects, by a map from our fields to paths in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from quality_lib.exchanges.json_path import MISSING, Path, compile_path, look_up
from quality_lib.exchanges.openai_bodies import exchanges_of_bodies
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Facts, Row
from quality_lib.exchanges.rows_of_choices import rows_of_choices
from quality_lib.exchanges.source import Reader, Source, is_probe

_REQUEST = ("messages", "prompt", "tools", "response_format", "model", "stream")
_MESSAGE = ("tool_calls", "reasoning")
_CHOICE = ("finish_reason", "token_ids", "logprobs")
_ANSWERS = ("response", "message", "text", "tool_calls")
FIELDS = frozenset({
    "id", "started_at", "ended_at", "first_token_at", "request", "response", "message", "text",
    "params", "prompt_tokens", "completion_tokens", "model_served", "backend", "status", "error",
    "tags", "user", "cache_hit", "probe", *_REQUEST, *_MESSAGE, *_CHOICE,
})  # fmt: skip
"""Our fields; ``params.<name>`` names a single parameter. ``request`` and ``response`` are whole OpenAI
bodies, ``message`` an assistant's message; what is named besides lies over them."""

_FAILED = {"failure", "failed", "fail", "error", "timeout", "cancelled"}


@dataclass(frozen=True)
class _Rule:
    """Where a field is looked for, in order, and what it is when it is nowhere."""

    paths: tuple[Path, ...]
    default: Any = MISSING

    def value(self, data: Mapping[str, Any]) -> Any:
        """Return the first value that is there and not null; a text of JSON is unpacked."""
        for path in self.paths:
            found = look_up(data, path)
            if found is not MISSING and found is not None:
                return found
        return None if self.default is MISSING else self.default


@dataclass(frozen=True)
class FieldMap:
    """A map that was checked."""

    rules: Mapping[str, _Rule]

    def value(self, data: Mapping[str, Any], field: str) -> Any:
        """Return the field's value, or None."""
        rule = self.rules.get(field)
        return rule.value(data) if rule else None


def compile_fields(fields: Mapping[str, str | Sequence[str]]) -> FieldMap:
    """Check a map: field → path, or several paths in order; ``=text`` at the end is a default.

    Raises:
        ValueError: naming the field, and what would be right.
    """
    rules = {}
    for field, written in fields.items():
        if field not in FIELDS and not (field.startswith("params.") and field != "params."):
            known = ", ".join(sorted(FIELDS))
            raise ValueError(f"there is no field '{field}'; use one of: {known}, params.<name>")
        given = [written] if isinstance(written, str) else list(written)
        default: Any = MISSING
        if given and given[-1].startswith("="):
            default = given.pop()[1:]
        try:
            rules[field] = _Rule(tuple(compile_path(path) for path in given), default)
        except ValueError as error:
            raise ValueError(f"field '{field}': {error}") from None
        if not given and default is MISSING:
            raise ValueError(f"field '{field}': name at least one path or a default '=text'")
    if rules and not any(field in rules for field in _ANSWERS):
        raise ValueError(f"no field leads to the answer; name one of: {', '.join(_ANSWERS)}")
    return FieldMap(rules)


def mapped_records(fields: FieldMap, source: Source) -> Reader:
    """Read JSON objects through the map."""

    def rows(data: Mapping[str, Any], key: str, line: int) -> Iterator[Row]:
        found = {field: fields.value(data, field) for field in FIELDS}
        found["params"] = _params(fields, data, found["params"])
        request, response = _request(found), _response(found)
        request_id = _name(found["id"]) or f"{key}:{line}"
        facts = _facts(found, request, response)
        if all(
            found[name] is None
            for name in (*_ANSWERS, "request", "messages", "prompt", "status", "error")
        ):
            yield BadLine(key, line, "none of the mapped fields is there")
            return
        reason = _left_out(found, facts, source)
        if reason is not None:
            yield Dropped(reason, key, line, request_id)
            return
        exchanges = exchanges_of_bodies(
            request,
            response,
            id=request_id,
            service=source.service,
            started_at=iso(found["started_at"]),
        )
        if not exchanges:
            yield Dropped(DropReason.NO_ANSWER, key, line, request_id)
        yield from rows_of_choices(exchanges, facts, key, line, request_id)

    return rows


def _params(fields: FieldMap, data: Mapping[str, Any], whole: Any) -> dict[str, Any]:
    single = {
        field.removeprefix("params."): fields.value(data, field)
        for field in fields.rules
        if field.startswith("params.")
    }
    return {**mapping(unpacked(whole)), **{k: v for k, v in single.items() if v is not None}}


def _request(found: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: unpacked(found[name]) for name in _REQUEST if found[name] is not None}
    if isinstance(given.get("messages"), str):
        given["prompt"] = given.pop("messages")
    body = {**mapping(unpacked(found["request"])), **found["params"], **given}
    if isinstance(body.get("messages"), list):
        body["messages"] = [_plain(message) for message in mappings(body["messages"])]
    return body


def _response(found: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(mapping(unpacked(found["response"])))
    usage = {
        name: found[name]
        for name in ("prompt_tokens", "completion_tokens")
        if found[name] is not None
    }
    body["usage"] = {**mapping(body.get("usage")), **usage}
    message = dict(_plain(mapping(unpacked(found["message"]))))
    message.update({name: unpacked(found[name]) for name in _MESSAGE if found[name] is not None})
    if found["text"] is not None:
        message["content"] = found["text"]
    if message:
        choice = {name: found[name] for name in _CHOICE if found[name] is not None}
        body["choices"] = [
            {"finish_reason": message.get("finish_reason"), **choice, "message": message}
        ]
    return body


def _plain(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Turn OpenTelemetry's ``parts`` into content and tool calls."""
    parts = mappings(message.get("parts"))
    if not parts or "content" in message:
        return message
    said = [text(p.get("content")) for p in parts if p.get("type") == "text"]
    calls = [
        {
            "id": p.get("id"),
            "function": {"name": p.get("name"), "arguments": _written(p.get("arguments"))},
        }
        for p in parts
        if p.get("type") == "tool_call"
    ]
    results = [
        _written(p.get("response", p.get("result")))
        for p in parts
        if p.get("type") == "tool_call_response"
    ]
    plain = {k: v for k, v in message.items() if k != "parts"}
    return {
        **plain,
        "content": "\n".join([*said, *results]),
        **({"tool_calls": calls} if calls else {}),
    }


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _left_out(found: Mapping[str, Any], facts: Facts, source: Source) -> DropReason | None:
    status = found["status"]
    code = (
        int(status)
        if isinstance(status, str) and status.isascii() and status.isdigit() and len(status) < 6
        else status
    )
    failed = (
        bool(found["error"])
        or (isinstance(code, int | float) and not isinstance(code, bool) and code >= 400)
        or text(status).lower() in _FAILED
    )
    checks = (
        (DropReason.OTHER_SERVICE, not source.serves(facts.model, facts.model_served)),
        (
            DropReason.OWN_PROBE,
            bool(flag(found["probe"])) or is_probe([*facts.tags, found["user"]]),
        ),
        (DropReason.CACHE_HIT, bool(flag(found["cache_hit"]))),
        (DropReason.FAILURE, failed),
    )
    return next((reason for reason, holds in checks if holds), None)


def _facts(
    found: Mapping[str, Any], request: Mapping[str, Any], response: Mapping[str, Any]
) -> Facts:
    tags = unpacked(found["tags"])
    return Facts(
        model=text(request.get("model")),
        model_served=text(found["model_served"]) or text(response.get("model")),
        backend=text(found["backend"]),
        stream=flag(request.get("stream")),
        status=_name(found["status"]),
        tags=(tags,) if isinstance(tags, str) else texts(tags),
        ended_at=iso(found["ended_at"]),
        first_token_s=seconds_between(found["started_at"], found["first_token_at"]),
    )


def _name(value: Any) -> str:
    return (
        str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    )
