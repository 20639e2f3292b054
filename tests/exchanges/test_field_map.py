"""A log of any shape, read through a map."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quality_lib.exchanges.field_map import compile_fields, mapped_records
from quality_lib.exchanges.json_path import MISSING, compile_path, look_up
from tests.exchanges.logs import CHAT, read, scored, shown

KONG = {
    "id": "request.id",
    "started_at": "started_at",
    "request": 'ai.proxy.payload["request"]',
    "response": "ai.proxy.payload.response",
    "status": "response.status",
    "model": ["ai.proxy.meta.request_model", "=chat"],
    "backend": "tries[-1].ip",
}
PLAIN = {"id": "id", "prompt": "q", "text": "a", "params.temperature": "t", "tags": "tags"}


def rows(fields: Any, **entry: Any) -> list[Any]:
    return read(mapped_records(compile_fields(fields), CHAT), json.dumps(entry).encode())


def kong(status: int = 200, **response: Any) -> dict[str, Any]:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], **response}
    return {
        "started_at": 1795981281244,
        "request": {"id": "r-1"},
        "response": {"status": status},
        "tries": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}],
        "ai": {
            "proxy": {
                "payload": {
                    "request": json.dumps({
                        "messages": [{"role": "user", "content": "Hello"}],
                        "top_p": 1,
                    }),
                    "response": json.dumps(body),
                }
            }
        },
    }


def test_bodies_written_as_texts_are_unpacked() -> None:
    (row,) = scored(rows(KONG, **kong()))
    assert row.exchange.id == "r-1"
    assert row.exchange.last_asked == "Hello"
    assert row.exchange.params == {"top_p": 1}
    assert row.exchange.answer and row.exchange.answer.text == "Hi"
    assert row.exchange.started_at == "2026-11-29T19:41:21.244000+00:00"
    assert (row.facts.model, row.facts.backend) == ("chat", "10.0.0.2")


def test_several_choices_are_several_exchanges() -> None:
    choices = [{"index": i, "text": str(i)} for i in (0, 1)]
    assert [shown(r) for r in rows(KONG, **kong(choices=choices))] == ["r-1#0", "r-1#1"]


def test_single_fields_are_enough() -> None:
    (row,) = scored(rows(PLAIN, id=7, q="Hello", a="Hi", t=0.5, tags="web"))
    assert row.exchange.id == "7"
    assert row.exchange.prompt == "Hello"
    assert row.exchange.params == {"temperature": 0.5}
    assert row.exchange.answer and row.exchange.answer.text == "Hi"
    assert row.facts.tags == ("web",)


def test_an_answer_that_is_json_stays_a_text() -> None:
    (row,) = scored(rows(PLAIN, q="a", a='{"name": "Ada"}'))
    assert row.exchange.answer and row.exchange.answer.text == '{"name": "Ada"}'
    assert row.exchange.id == "k:1"


def test_messages_in_parts_are_plain_again() -> None:
    fields = {
        "messages": '["gen_ai.input.messages"]',
        "message": '["gen_ai.output.messages"][0]',
        "prompt_tokens": '["gen_ai.usage.input_tokens"]',
    }
    entry = {
        "gen_ai.input.messages": [
            {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
        ],
        "gen_ai.output.messages": [
            {
                "role": "assistant",
                "finish_reason": "tool_call",
                "parts": [
                    {"type": "text", "content": "Let me look."},
                    {
                        "type": "tool_call",
                        "id": "1",
                        "name": "weather",
                        "arguments": {"city": "Oslo"},
                    },
                ],
            }
        ],
        "gen_ai.usage.input_tokens": 12,
    }
    (row,) = scored(rows(fields, **entry))
    assert row.exchange.last_asked == "Weather?"
    assert row.exchange.prompt_tokens == 12
    answer = row.exchange.answer
    assert answer is not None
    assert (answer.text, answer.finish_reason) == ("Let me look.", "tool_call")
    assert [(c.name, c.arguments) for c in answer.tool_calls] == [("weather", '{"city": "Oslo"}')]


@pytest.mark.parametrize(
    ("entry", "shows"),
    [
        ({"a": "Hi", "status": 200}, "k:1"),
        ({"a": "Hi", "status": "200"}, "k:1"),
        ({"a": "Hi", "status": "success"}, "k:1"),
        ({"a": "Hi", "status": 500}, "failure"),
        ({"a": "Hi", "status": "429"}, "failure"),
        ({"a": "Hi", "status": "Error"}, "failure"),
        ({"a": "Hi", "error": {"type": "x"}}, "failure"),
        ({"a": "Hi", "error": None}, "k:1"),
        ({"a": "Hi", "hit": True}, "cache_hit"),
        ({"a": "Hi", "hit": "false"}, "k:1"),
        ({"a": "Hi", "probe": "1"}, "own_probe"),
        ({"a": "Hi", "model": "other"}, "other_service"),
        ({"a": "[redacted]"}, "redacted"),
        ({"a": "half an ans ...[truncated]"}, "truncated"),
        ({"q": "Hi"}, "no_answer"),
        ({"other": 1}, "bad"),
    ],
)
def test_what_is_left_out(entry: dict[str, Any], shows: str) -> None:
    fields = {
        "prompt": "q", "text": "a", "status": "status", "error": "error", "cache_hit": "hit",
        "probe": "probe", "model": "model",
    }  # fmt: skip
    assert [shown(row) for row in rows(fields, **entry)] == [shows]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"txet": "a"}, "there is no field 'txet'"),
        ({"text": "a..b"}, "field 'text': path 'a..b' cannot be read from character 2"),
        ({"text": "a[x]"}, "cannot be read from character 2"),
        ({"text": ""}, "must not be empty"),
        ({"text": []}, "name at least one path"),
        ({"params.": "a", "text": "b"}, "there is no field 'params.'"),
        ({"prompt": "a"}, "no field leads to the answer"),
    ],
)
def test_a_wrong_map_is_told_before_anything_is_read(fields: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("[", r"\[").replace(".", r"\.")):
        compile_fields(fields)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", 1),
        ("list[0].c", 2),
        ("list[-1]", {"c": 2}),
        ('["a.b"]', 3),
        ('a["b"]', 1),
        ("null", None),
        ("a.b.c", MISSING),
        ("list[7]", MISSING),
        ("list.c", MISSING),
        ("a[0]", MISSING),
        ("nothing", MISSING),
    ],
)
def test_paths(path: str, value: Any) -> None:
    data = {"a": {"b": 1}, "list": [{"c": 2}], "a.b": 3, "null": None}
    assert look_up(data, compile_path(path)) == value
