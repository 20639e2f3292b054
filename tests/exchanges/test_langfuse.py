"""Langfuse's observations in the enriched, the older and the interface's form."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange, ToolCall
from quality_lib.exchanges.langfuse import langfuse
from tests.exchanges.logs import CHAT, LOGS, read, scored, shown

EXPORT = (LOGS / "langfuse" / "observations.jsonl").read_bytes()


def one(**fields: Any) -> list[Any]:
    base = {"id": "o", "type": "GENERATION", "input": "Hi", "output": "Hello!"}
    return read(langfuse(CHAT), json.dumps({**base, **fields}).encode())


def exchange(identity: str) -> Exchange:
    rows = scored(read(langfuse(CHAT), EXPORT))
    return next(r.exchange for r in rows if r.exchange.id == identity)


def test_every_row_of_the_export_is_accounted_for() -> None:
    assert [shown(row) for row in read(langfuse(CHAT), EXPORT)] == [
        "obs-chat", "obs-tools", "obs-structured", "obs-plain", "not_generation", "failure",
        "cache_hit", "own_probe", "redacted", "obs-null-text", "other_service",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(EXPORT),
        json.dumps([json.loads(line) for line in EXPORT.splitlines()]).encode(),
        json.dumps([json.loads(line) for line in EXPORT.splitlines()], indent=2).encode(),
    ],
)
def test_json_and_gzip_hold_the_same(content: bytes) -> None:
    plain = [shown(row) for row in read(langfuse(CHAT), EXPORT)]
    assert [shown(row) for row in read(langfuse(CHAT), content)] == plain


def test_a_chat_is_read_whole() -> None:
    row = scored(read(langfuse(CHAT), EXPORT))[0]
    found = row.exchange
    assert found.params == {"temperature": 0.7, "max_tokens": 64}
    assert found.last_asked == "What is the capital of France?"
    assert found.answer and found.answer.text == "The capital of France is Paris."
    assert found.answer.finish_reason == "stop"
    assert (found.prompt_tokens, found.completion_tokens) == (27, 8)
    assert found.started_at == "2026-11-29T19:41:21+00:00"
    assert (row.facts.stream, row.facts.first_token_s) == (True, 0.25)
    assert (row.facts.backend, row.facts.tags) == ("http://10.0.0.7:8000", ("web",))


def test_tools_stand_beside_the_output() -> None:
    found = exchange("obs-tools")
    assert found.tools[0]["function"]["name"] == "get_weather"
    assert found.answer is not None
    assert found.answer.tool_calls == (ToolCall("get_weather", '{"city": "Oslo"}', "call-1"),)
    assert found.answer.text is None


def test_an_output_that_is_json_is_the_answers_text() -> None:
    found = exchange("obs-structured")
    assert found.response_format == {"type": "json_object"}
    assert found.answer and found.answer.text == '{"name": "Ada", "age": 36}'


def test_null_though_tokens_were_used_is_an_answer() -> None:
    found = exchange("obs-null-text")
    assert found.answer and found.answer.text is None
    assert found.completion_tokens == 60


def test_the_interface_writes_other_names() -> None:
    (row,) = one(
        model="chat", modelParameters={"temperature": 1}, startTime="2026-11-29T19:41:21.000Z",
        completionStartTime="2026-11-29T19:41:22.000Z", usage={"promptTokens": 3, "completionTokens": 4},
        input=[{"role": "user", "content": "Hi"}], output={"role": "assistant", "content": "Hello!"},
    )  # fmt: skip
    assert row.exchange.params == {"temperature": 1}
    assert (row.exchange.prompt_tokens, row.exchange.completion_tokens) == (3, 4)
    assert row.exchange.started_at == "2026-11-29T19:41:21+00:00"
    assert row.facts.first_token_s == 1.0


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ('["a", "list"]', '["a", "list"]'),
        ('{"content": "not a message"}', '{"content": "not a message"}'),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "b"),
        ({"choices": [{"message": {"content": "c"}}]}, "c"),
        ({"answer": "dict"}, '{"answer": "dict"}'),
        (17, "17"),
    ],
)
def test_outputs_of_all_kinds(output: Any, text: str) -> None:
    (row,) = one(output=output)
    assert row.exchange.answer.text == text


@pytest.mark.parametrize(
    ("given", "prompt", "asked"),
    [
        ("Hi", "Hi", "Hi"),
        ('{"question": "Hi"}', '{"question": "Hi"}', '{"question": "Hi"}'),
        ('[{"role": "user", "content": "Hi"}]', None, "Hi"),
        ({"role": "user", "content": "Hi"}, None, "Hi"),
        (["a", "b"], '["a", "b"]', '["a", "b"]'),
        (None, None, ""),
    ],
)
def test_inputs_of_all_kinds(given: Any, prompt: str | None, asked: str) -> None:
    (row,) = one(input=given)
    assert (row.exchange.prompt, row.exchange.asked) == (prompt, asked)


def test_a_score_of_another_folder_is_a_bad_line() -> None:
    assert [shown(r) for r in read(langfuse(CHAT), b'{"id": "s", "value": 0.5}')] == ["bad"]


def test_nothing_said_and_nothing_used_is_no_answer() -> None:
    assert [shown(r) for r in one(output=None)] == ["no_answer"]
    assert [shown(r) for r in one(output=None, input=None, usage_details={"output": 5})] == [
        "redacted"
    ]
