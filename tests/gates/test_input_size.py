from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_size import input_size, input_tokens
from quality_lib.records import Outcome

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


SYSTEM = {"role": "system", "content": "You are kind."}
TOOL = {"role": "tool", "content": "", "tool_call_id": "1"}

REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "one word": ({"prompt": "Hi"}, "input_size_ok"),
    "one emoji": ({"prompt": "👍"}, "input_size_ok"),
    "nothing": ({"prompt": ""}, "input_empty"),
    "no messages": ({"messages": ()}, "input_empty"),
    "blanks": ({"prompt": " \n\t\u3000"}, "input_blank"),
    "blank user message": ({"messages": (SYSTEM, user("  \n"))}, "input_blank"),
    "empty user message": ({"messages": (SYSTEM, user(""))}, "input_empty"),
    "null content": ({"messages": (user(None),)}, "input_empty"),
    "text part": ({"messages": (user([{"type": "text", "text": "Hi"}]),)}, "input_size_ok"),
    "empty text part": ({"messages": (user([{"type": "text", "text": ""}]),)}, "input_empty"),
    "a picture alone": ({"messages": (user([PICTURE]),)}, "input_size_ok"),
    "blank beside a picture": (
        {"messages": (user([PICTURE, {"type": "text", "text": " "}]),)},
        "input_size_ok",
    ),
    "empty tool result": ({"messages": (user("Go"), TOOL)}, "input_size_ok"),
    "system alone": ({"messages": (SYSTEM,)}, "input_size_ok"),
    "token ids": ({"prompt_token_ids": (1, 2)}, "input_size_ok"),
    "not recorded": ({"answer": Answer("Hello")}, "input_not_recorded"),
    "just long enough": ({"prompt": "a" * 100}, "input_size_ok"),
    "too long": ({"prompt": "a" * 101}, "input_too_long"),
    "too long together": ({"messages": (user("a" * 60), user("b" * 60))}, "input_too_long"),
    "parts too long": ({"messages": (user([{"text": "a" * 101}]),)}, "input_too_long"),
}


@pytest.mark.parametrize(("request_", "reason"), REQUESTS.values(), ids=REQUESTS)
def test_size(request_: dict[str, Any], reason: str) -> None:
    verdict = input_size(InputLimits(max_characters=100)).judge(Exchange(**request_))
    assert verdict.reason == reason


def count_words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("limit", "counter", "request_", "outcome"),
    [
        (None, count_words, {"prompt": "a b c"}, Outcome.UNJUDGED),
        (3, None, {"prompt": "a b c"}, Outcome.UNJUDGED),
        (3, count_words, {"prompt": "a b c"}, Outcome.PASSED),
        (3, count_words, {"prompt": "a b c d"}, Outcome.FAILED),
        (3, None, {"prompt": "a", "expected_prompt_tokens": 4}, Outcome.FAILED),
        (3, count_words, {"prompt": "a b c d", "expected_prompt_tokens": 3}, Outcome.PASSED),
        (3, None, {"prompt": "a", "prompt_tokens": 4}, Outcome.FAILED),
        (3, None, {"prompt": "a", "prompt_tokens": 0}, Outcome.UNJUDGED),
        (3, None, {"prompt_token_ids": (1, 2, 3, 4)}, Outcome.FAILED),
    ],
)
def test_tokens(
    limit: int | None, counter: Any, request_: dict[str, Any], outcome: Outcome
) -> None:
    verdict = input_tokens(InputLimits(max_tokens=limit), counter).judge(Exchange(**request_))
    assert verdict.outcome is outcome
