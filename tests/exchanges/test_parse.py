from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.errors import BadInput
from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.exchanges.parse import parse_exchange

FULL = {
    "id": "r1",
    "started_at": "2026-11-30T10:00:00Z",
    "service": "chat",
    "snapshot_id": "ab12",
    "endpoint": "http://127.0.0.1:8000",
    "request": {
        "messages": [{"role": "user", "content": "Hi"}],
        "params": {"temperature": 0.7},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_object"},
    },
    "response": {
        "text": "{}",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "finish_reason": "stop",
        "token_ids": [1, 2],
        "logprobs": [-0.5, -1],
        "entropies": [0.1, 0.2],
        "nan_logits": 0,
        "reasoning": "Well.",
        "prompt_token_ids": [5, 6],
    },
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    "expected_prompt_tokens": 8,
    "nonce": "K",
    "recent_texts": ["a"],
    "gates": [{"gate": "x"}],
    "masked": True,
    "something_new": 1,
}  # fmt: skip


def test_the_full_record() -> None:
    assert parse_exchange(FULL) == Exchange(
        id="r1",
        messages=({"role": "user", "content": "Hi"},),
        params={"temperature": 0.7},
        tools=({"type": "function", "function": {"name": "f"}},),
        response_format={"type": "json_object"},
        answer=Answer(
            text="{}",
            tool_calls=(ToolCall("f", "{}", "c1"),),
            reasoning="Well.",
            finish_reason="stop",
            token_ids=(1, 2),
            logprobs=(-0.5, -1.0),
            entropies=(0.1, 0.2),
            nan_logits=0,
        ),
        prompt_tokens=9,
        completion_tokens=2,
        expected_prompt_tokens=8,
        prompt_token_ids=(5, 6),
        nonce="K",
        recent_texts=("a",),
        service="chat",
        snapshot_id="ab12",
        endpoint="http://127.0.0.1:8000",
        started_at="2026-11-30T10:00:00Z",
    )


def test_the_short_form() -> None:
    exchange = parse_exchange({
        "id": 17, "prompt": "Hi", "text": "Hello", "finish_reason": "stop", "params": {"top_p": 1},
        "response_format": "json_schema", "usage": {"prompt_tokens": 3.0}, "nonce": "N",
        "tool_calls": [{"name": "f", "arguments": {"a": "ü"}}],
    })  # fmt: skip
    assert exchange == Exchange(
        id="17",
        prompt="Hi",
        params={"top_p": 1},
        response_format={"type": "json_schema"},
        answer=Answer("Hello", (ToolCall("f", '{"a": "ü"}'),), finish_reason="stop"),
        prompt_tokens=3,
        nonce="N",
    )


ASK = {"prompt": "Hi"}


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({}, None),
        ({"text": None}, None),
        ({"text": None, "tool_calls": [], "finish_reason": None, "response": None}, None),
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 0}}, None),
        ({"stream": True, "logprobs": True, "n": 2}, None),
        ({"text": ""}, Answer("")),
        ({"text": None, "finish_reason": "stop"}, Answer(None, finish_reason="stop")),
        ({"text": None, "usage": {"completion_tokens": 9}}, Answer(None)),
        ({"response": {}}, Answer(None)),
        ({"response": {"text": None}}, Answer(None)),
        ({"tool_calls": [{"name": "f"}]}, Answer(None, (ToolCall("f", ""),))),
        ({"text": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, Answer("a\nb")),
        ({"text": "a", "logprobs": {"content": [{"logprob": -1.5}]}}, Answer("a", logprobs=(-1.5,))),
        ({"text": "a", "logprobs": {"token_logprobs": [None, -2]}}, Answer("a", logprobs=(-2.0,))),
        ({"text": "a", "logprobs": [{"token": "a", "logprob": -0.1}]}, Answer("a", logprobs=(-0.1,))),
        ({"text": "a", "logprobs": {"content": None}}, Answer("a")),
        ({"text": "a", "reasoning_content": "r"}, Answer("a", reasoning="r")),
        (
            {"response": {"choices": [{"message": {"content": "c"}, "finish_reason": "stop"}]}},
            Answer("c", finish_reason="stop"),
        ),
        ({"response": {"choices": [{"text": "c", "finish_reason": "length"}]}}, Answer("c", finish_reason="length")),
    ],
)  # fmt: skip
def test_answers(fields: dict[str, Any], answer: Answer | None) -> None:
    assert parse_exchange(ASK | fields).answer == answer


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ({"function": {"name": "f", "arguments": '{"a":1}'}, "id": "1"}, ToolCall("f", '{"a":1}', "1")),
        ({"name": "f", "arguments": '{"a":1}{"a":1}'}, ToolCall("f", '{"a":1}{"a":1}')),
        ({"name": "f", "arguments": [1]}, ToolCall("f", "[1]")),
        ({"name": None, "arguments": None}, ToolCall("", "")),
        ({"function": {}}, ToolCall("", "")),
    ],
)  # fmt: skip
def test_tool_calls(call: dict[str, Any], read: ToolCall) -> None:
    answer = parse_exchange(ASK | {"tool_calls": [call]}).answer
    assert answer is not None
    assert answer.tool_calls == (read,)


@pytest.mark.parametrize(
    ("record", "params"),
    [
        ({"prompt": "a", "temperature": 3, "max_tokens": 5}, {"temperature": 3, "max_tokens": 5}),
        ({"request": {"prompt": "a", "top_p": 0.5}}, {"top_p": 0.5}),
        (
            {"temperature": 1, "request": {"prompt": "a", "temperature": 2, "params": {"temperature": 3}}},
            {"temperature": 3},
        ),
        ({"prompt": "a", "params": {"temperature": None, "x": {}}}, {"temperature": None, "x": {}}),
        ({"prompt": "a", "params": None}, {}),
    ],
)  # fmt: skip
def test_parameters_are_found_where_they_stand(
    record: dict[str, Any], params: dict[str, Any]
) -> None:
    assert parse_exchange(record).params == params


@pytest.mark.parametrize(
    ("prompt", "text", "ids"),
    [("a", "a", None), (["a"], "a", None), ([1, 2], None, (1, 2)), ("", "", None)],
)
def test_prompts_of_completions(prompt: Any, text: str | None, ids: Any) -> None:
    exchange = parse_exchange({"prompt": prompt})
    assert (exchange.prompt, exchange.prompt_token_ids) == (text, ids)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ([], None),
        ("text", None),
        (None, None),
        ({}, "prompt"),
        ({"id": "x"}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"prompt": "a", "text": 5}, "text"),
        ({"prompt": "a", "params": []}, "params"),
        ({"prompt": "a", "request": "x"}, "request"),
        ({"prompt": "a", "response": []}, "response"),
        ({"prompt": "a", "response": {"choices": []}}, "response.choices"),
        ({"prompt": "a", "response": {"choices": [{}, {}]}}, "response.choices"),
        ({"prompt": "a", "tools": {}}, "tools"),
        ({"prompt": "a", "response_format": 5}, "response_format"),
        ({"prompt": "a", "usage": 5}, "usage"),
        ({"prompt": "a", "usage": {"prompt_tokens": -1}}, "usage.prompt_tokens"),
        ({"prompt": "a", "usage": {"completion_tokens": "9"}}, "usage.completion_tokens"),
        ({"prompt": "a", "expected_prompt_tokens": True}, "expected_prompt_tokens"),
        ({"prompt": "a", "text": "b", "tool_calls": {}}, "tool_calls"),
        ({"prompt": "a", "tool_calls": ["f"]}, "tool_calls[0]"),
        ({"prompt": "a", "text": "b", "token_ids": [1.5]}, "token_ids"),
        ({"prompt": "a", "text": "b", "logprobs": ["x"]}, "logprobs"),
        ({"prompt": "a", "text": "b", "logprobs": "x"}, "logprobs"),
        ({"prompt": "a", "text": "b", "finish_reason": 5}, "finish_reason"),
        ({"prompt": "a", "nonce": 5}, "nonce"),
        ({"prompt": "a", "recent_texts": "b"}, "recent_texts"),
        ({"prompt": "a", "id": []}, "id"),
    ],
)
def test_a_wrong_field_is_named_with_file_line_and_fix(record: Any, field: str | None) -> None:
    with pytest.raises(BadInput) as caught:
        parse_exchange(record, file="log.jsonl", line=7)
    error = caught.value
    assert (error.file, error.line, error.field) == ("log.jsonl", 7, field)
    assert error.fix
    assert str(error).startswith("log.jsonl:7: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted({
        *FULL, *FULL["request"], *FULL["response"], *FULL["usage"], "prompt", "role", "content",  # type: ignore[misc]
        "function", "name", "arguments", "choices", "message", "logprob",
    })), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_any_json_is_an_exchange_or_bad_input(data: Any) -> None:
    try:
        exchange = parse_exchange(data)
    except BadInput:
        return
    assert exchange.asked is not None


def test_a_record_survives_json() -> None:
    assert parse_exchange(json.loads(json.dumps(FULL))) == parse_exchange(FULL)
