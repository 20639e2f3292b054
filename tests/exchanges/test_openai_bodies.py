"""Request and response bodies of the OpenAI interface."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange, ToolCall
from quality_lib.exchanges.openai_bodies import exchanges_of_bodies


def read(request: dict[str, Any], *choices: dict[str, Any], **usage: Any) -> tuple[Exchange, ...]:
    return exchanges_of_bodies(request, {"choices": list(choices), "usage": usage}, id="r")


def message(content: Any = "Hi", **more: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", "content": content, **more}}


def test_a_chat_is_read_whole() -> None:
    asked = {
        "model": "chat", "stream": True, "user": "u", "temperature": 0, "top_p": None,
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_object"},
        "extra_body": {"top_k": 5},
    }  # fmt: skip
    (found,) = read(
        asked, message() | {"finish_reason": "stop"}, prompt_tokens=3, completion_tokens=1
    )
    assert found.params == {"temperature": 0, "top_k": 5}
    assert found.last_asked == "Hello"
    assert found.tools == ({"type": "function", "function": {"name": "f"}},)
    assert found.response_format == {"type": "json_object"}
    assert (found.prompt_tokens, found.completion_tokens) == (3, 1)
    assert found.endpoint == "/v1/chat/completions"
    assert found.answer is not None
    assert (found.answer.text, found.answer.finish_reason) == ("Hi", "stop")


def test_each_choice_is_an_exchange_with_its_own_length() -> None:
    logprobs = {"content": [{"token": "a", "logprob": -1.5}, {"token": "b", "logprob": -0.5}]}
    found = read(
        {"messages": [], "n": 3},
        message("second") | {"index": 1},
        message("first") | {"logprobs": logprobs},
        message("third") | {"index": 2, "token_ids": [1, 2, 3]},
        completion_tokens=9,
    )
    assert [e.id for e in found] == ["r#0", "r#1", "r#2"]
    assert [e.answer.text for e in found if e.answer] == ["first", "second", "third"]
    # The usage of 9 is that of all three together, so it belongs to none.
    assert [e.completion_tokens for e in found] == [2, None, 3]
    assert found[0].answer and found[0].answer.logprobs == (-1.5, -0.5)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", ""),
        (None, None),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([], ""),
        (17, None),
    ],
)
def test_null_is_not_empty(content: Any, text: str | None) -> None:
    (found,) = read({}, message(content))
    assert found.answer is not None
    assert found.answer.text == text


@pytest.mark.parametrize(
    "more",
    [
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
        {"provider_specific_fields": {"reasoning": "hm"}},
        {"provider_specific_fields": {"reasoning_content": "hm"}, "reasoning": None},
    ],
)
def test_reasoning_has_several_places(more: dict[str, Any]) -> None:
    (found,) = read({}, message(**more))
    assert found.answer is not None
    assert found.answer.reasoning == "hm"


@pytest.mark.parametrize(
    ("more", "calls"),
    [
        (
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{oops"}}]},
            (ToolCall("f", "{oops", "1"),),
        ),
        ({"function_call": {"name": "f", "arguments": "{}"}}, (ToolCall("f", "{}"),)),
        ({"tool_calls": [None, {"function": None}]}, (ToolCall("", ""),)),
        ({"tool_calls": None, "function_call": None}, ()),
    ],
)
def test_tool_calls_stay_as_the_model_wrote_them(
    more: dict[str, Any], calls: tuple[ToolCall, ...]
) -> None:
    (found,) = read({}, message(None, **more))
    assert found.answer is not None
    assert found.answer.tool_calls == calls


def test_a_completion_is_read() -> None:
    logprobs = {"tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-0.25, -1]}
    (found,) = read({"prompt": ["Once"]}, {"index": 0, "text": " upon", "logprobs": logprobs})
    assert found.prompt == "Once"
    assert found.endpoint == "/v1/completions"
    assert found.answer is not None
    assert found.answer.text == " upon"
    assert found.answer.logprobs == (-0.25, -1.0)
    assert found.answer.token_ids == (5, 6)


@pytest.mark.parametrize(
    ("prompt", "text", "ids"),
    [("a", "a", None), (["a"], "a", None), ([1, 2], None, (1, 2)), (["a", "b"], None, None)],
)
def test_prompts_of_all_kinds(prompt: Any, text: str | None, ids: Any) -> None:
    (found,) = read({"prompt": prompt}, {"text": ""})
    assert (found.prompt, found.prompt_token_ids) == (text, ids)


@pytest.mark.parametrize(
    "logprobs",
    [None, {"content": []}, {"content": [{"logprob": None}]}, {"token_logprobs": ["x"]}, 3],
)
def test_half_log_probabilities_are_none(logprobs: Any) -> None:
    (found,) = read({}, message() | {"logprobs": logprobs})
    assert found.answer is not None
    assert found.answer.logprobs is None


def test_no_choices_is_no_exchange() -> None:
    assert exchanges_of_bodies({"messages": []}, {}, id="r") == ()
