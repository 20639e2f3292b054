"""Lines that no golden set may hold, each with the field, problem and fix that must be told."""

from __future__ import annotations

import json
from typing import Any

ASK = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def line(**fields: Any) -> str:
    return json.dumps({"id": "a", "messages": ASK, **fields}, ensure_ascii=False)


BAD: list[tuple[str, str, str, str]] = [
    ('{"id": "a"', "", "no JSON", "one line"),
    ("[1]", "", "a list instead of an object", "object"),
    ('"text"', "", "a str instead", "object"),
    ('{"id": "a", "id": "b"}', "", "'id' stands twice", ""),
    (line(params={"temperature": float("nan")}), "", "NaN is no JSON number", ""),
    ('{"id": "a", "messages": [{"role": "user", "content": "\\ud800"}]}', "", "surrogate", ""),
    ("[" * 100_000, "", "no usable JSON", ""),
    (json.dumps({"messages": ASK}), "id", "is missing", "a string"),
    (json.dumps({"id": "a"}), "messages", "is missing", "a list"),
    (line(id=""), "id", "is empty", "letters"),
    (line(id="a/../b"), "id", "cannot be an id", "letters"),
    (line(id=7), "id", "is 7", "must be a string"),
    (line(messages=[]), "messages", "is empty", "role"),
    (line(messages="Hi"), "messages", "is 'Hi'", "must be a list"),
    (line(messages=["Hi"]), "messages[0]", "is no object", "role"),
    (line(messages=[{"role": "usr", "content": "x"}]), "messages[0].role", "'usr'", "'user'"),
    (line(messages=[{"content": "x"}]), "messages[0].role", "None", "use one of"),
    (line(messages=[{"role": "user"}]), "messages[0].content", "is None", "a string"),
    (line(messages=[{"role": "user", "content": " "}]), "messages[0].content", "is empty", ""),
    (line(messages=[{"role": "user", "content": []}]), "messages[0].content[0]", "no text", ""),
    (line(messages=[{**ASK[0], "contnt": 1}]), "messages[0].contnt", "unknown", "'content'"),
    (line(messages=[*ASK, {"role": "assistant", "content": "x"}]), "messages[1].role", "last", ""),
    (line(mesages=[]), "mesages", "unknown field", "did you mean 'messages'?"),
    (line(params=3), "params", "is 3", "an object"),
    (line(params={"temprature": 0}), "params.temprature", "unknown", "'temperature'"),
    (line(params={"temperature": "0"}), "params.temperature", "is '0'", "a number"),
    (line(params={"temperature": True}), "params.temperature", "is True", "a number"),
    (line(params={"temperature": 0.7}), "params.seed", "is missing", "add a seed"),
    (line(params={"temperature": 3, "seed": 1}), "params.temperature", "is 3", "0 to 2"),
    (line(params={"seed": -1}), "params.seed", "is -1", "0 to"),
    (line(params={"max_tokens": -5}), "params.max_tokens", "is -5", "1 or more"),
    (line(params={"max_tokens": 2.5}), "params.max_tokens", "is 2.5", "a whole number"),
    (line(params={"top_p": 0}), "params.top_p", "is 0", "(0, 1]"),
    (line(tools=[{"name": "add"}]), "tools[0]", "is no tool", "function"),
    (line(tools=[TOOL, TOOL]), "tools[1].function.name", "offered twice", "rename"),
    (line(tool_choice="required"), "tool_choice", "no tool is offered", "add tools"),
    (line(tools=[TOOL], tool_choice="requird"), "tool_choice", "unknown", "'required'"),
    (
        line(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "sub"}}),
        "tool_choice",
        "'sub'",
        "add",
    ),
    (line(response_format={"type": "jsn_object"}), "response_format.type", "jsn", "'json_object'"),
    (
        line(response_format={"type": "json_schema", "json_schema": {"schema": {}}}),
        "response_format.json_schema",
        "lacks a name",
        "",
    ),
    (
        line(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "objekt"}},
            }
        ),
        "response_format.json_schema.schema.type",
        "no valid JSON schema",
        "",
    ),
    (line(facts=[""]), "facts[0]", "is empty", "everywhere"),
    (line(facts=["ok", "a||b"]), "facts[1]", "empty alternative", "everywhere"),
    (line(facts=[3]), "facts[0]", "is 3", "a string"),
    (line(checks=["json"]), "checks[0]", "is no object", "type"),
    (line(checks=[{}]), "checks[0].type", "has no type", "use one of"),
    (line(checks=[{"type": "jsn"}]), "checks[0].type", "unknown check type 'jsn'", "'json'"),
    (line(checks=[{"type": "regex"}]), "checks[0].pattern", "needs it", "a string"),
    (line(checks=[{"type": "regex", "pattern": "("}]), "checks[0].pattern", "regular", "escape"),
    (line(checks=[{"type": "json", "patern": 1}]), "checks[0].patern", "unknown field", "type"),
    (line(checks=[{"type": "contains", "text": ""}]), "checks[0].text", "is empty", ""),
    (line(checks=[{"type": "max_words", "words": 0}]), "checks[0].words", "is 0", "1 or more"),
    (line(checks=[{"type": "max_words", "words": True}]), "checks[0].words", "is True", "whole"),
    (line(checks=[{"type": "code", "language": "pyton"}]), "checks[0].language", "", "'python'"),
    (line(checks=[{"type": "script", "script": "Klingon"}]), "checks[0].script", "Klingon", ""),
    (
        line(checks=[{"type": "script", "script": "Han", "min_share": 2}]),
        "checks[0].min_share",
        "is 2",
        "(0, 1]",
    ),
    (
        line(checks=[{"type": "json_schema", "schema": {"minimum": "x"}}]),
        "checks[0].schema.minimum",
        "no valid JSON schema",
        "",
    ),
    (
        line(checks=[{"type": "json_schema", "schema": {"pattern": "("}}]),
        "checks[0].schema.pattern",
        "no valid JSON schema",
        "",
    ),
    (
        line(checks=[{"type": "json_schema", "schema": {"$ref": "http://example.org/s"}}]),
        "checks[0].schema",
        "leads nowhere",
        "$defs",
    ),
    (
        line(checks=[{"type": "json_schema", "schema": {"items": {"$ref": "#/$defs/no"}}}]),
        "checks[0].schema",
        "leads nowhere",
        "$defs",
    ),
    (line(checks=[{"type": "tool_call", "name": "add"}]), "checks[0].name", "not offer", "tools"),
    (line(tags=["x", "x"]), "tags[1]", "stands twice", "remove"),
    (line(tags=[""]), "tags[0]", "is ''", ""),
    (line(repeats=0), "repeats", "is 0", "1 to"),
    (line(critical="yes"), "critical", "is 'yes'", "true or false"),
]
