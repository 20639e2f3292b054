"""Faults on the way of a request: what the proxy makes of a body, and that it is gone afterwards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from bench.faults.fault import Change, Fault, Shim, Target
from bench.faults.folder_changes import Template
from bench.faults.request_change import (
    CHAT,
    COMPLETIONS,
    Dropped,
    Parameters,
    ShimTransport,
    Truncation,
)
from quality_lib.adapters.vllm.http import VllmHttp
from quality_lib.errors import BadInput

SAMPLED = {"temperature": 1.0, "top_p": 1.0, "messages": [{"role": "user", "content": "a b c d e"}]}
GREEDY = {**SAMPLED, "temperature": 0.0}
HEALTHY_TEMPLATE = (
    "{% if loop.first %}system{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content']}}<|im_start|>assistant\n"
)


@pytest.mark.parametrize(
    ("change", "path", "body", "changed"),
    [
        (Parameters({"temperature": 0.7}), CHAT, SAMPLED, {"temperature": 0.7}),
        (Parameters({"temperature": 0.7}), CHAT, GREEDY, {}),
        (Parameters({"top_k": 1}, is_for_greedy=True), CHAT, GREEDY, {"top_k": 1}),
        (Parameters({"top_p": 0.9}), COMPLETIONS, {"prompt": [1, 2]}, {"top_p": 0.9}),
        (Parameters({"top_p": 0.9}), "/tokenize", SAMPLED, {}),
        (Truncation("head", 0.4), CHAT, SAMPLED, {"messages": [{"role": "user", "content": "c d e"}]}),
        (Truncation("tail", 0.4), CHAT, SAMPLED, {"messages": [{"role": "user", "content": "a b c"}]}),
        (Truncation("middle", 0.4), CHAT, SAMPLED, {"messages": [{"role": "user", "content": "a d e"}]}),
        (Truncation("head", 0.9), CHAT, SAMPLED, {"messages": [{"role": "user", "content": "e"}]}),
        (Truncation("head", 0.5), COMPLETIONS, {"prompt": [1, 2, 3, 4]}, {}),
    ],
)  # fmt: skip
def test_bodies(change: Change, path: str, body: dict[str, Any], changed: dict[str, Any]) -> None:
    shim = Shim()
    undo = Fault(1, "f", "k", change).apply(Target(shim=shim))
    assert shim.rewritten(path, body) == {**body, **changed}
    undo()
    assert shim.rewritten(path, body) == body
    assert not shim.rewrites


@pytest.mark.parametrize("parts", [[], ["only"]])
def test_nothing_is_cut_from_almost_nothing(parts: list[str]) -> None:
    assert Truncation("head", 0.5).cut(parts) == parts


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(BadInput, match="no part 'soul'"):
        Truncation("soul", 0.5).cut(["a", "b"])


def test_messages_of_others_are_not_cut_nor_changed_in_place() -> None:
    messages = [
        {"role": "system", "content": "one two"}, {"role": "user", "content": "first question"},
        {"role": "assistant", "content": "an answer"}, {"role": "user", "content": "the last question"},
    ]  # fmt: skip
    shim = Shim()
    Truncation("tail", 0.34).apply(Target(shim=shim), 0)
    told = shim.rewritten(CHAT, {"messages": messages})
    assert told is not None
    assert [m["content"] for m in told["messages"]] == [
        "one two", "first question", "an answer", "the last"
    ]  # fmt: skip
    assert messages[3]["content"] == "the last question"


def test_a_template_fault_goes_with_chats_alone() -> None:
    shim = Shim()
    undo = Template("missing_newline", HEALTHY_TEMPLATE).apply(Target(shim=shim), 0)
    told = shim.rewritten(CHAT, SAMPLED)
    assert told is not None
    assert told["chat_template"].endswith("<|im_start|>assistant")
    assert shim.rewritten(COMPLETIONS, {"prompt": [1]}) == {"prompt": [1]}
    undo()
    assert shim.rewritten(CHAT, SAMPLED) == SAMPLED


def test_a_fault_without_its_place_is_refused() -> None:
    with pytest.raises(BadInput, match="needs requests"):
        Fault(10, "hot", "k", Parameters({"temperature": 2.0})).apply(Target())


def _served(shim: Shim, seen: list[dict[str, Any]]) -> VllmHttp:
    def answer(request: httpx.Request) -> httpx.Response:
        assert int(request.headers.get("content-length", 0)) == len(request.content)
        seen.append({"path": request.url.path, "body": json.loads(request.content or b"null")})
        return httpx.Response(200, json={"ok": True})

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    transport = ShimTransport(shim, httpx.MockTransport(answer))
    return VllmHttp("http://server", transport=transport, sleep=at_once)


def test_the_proxy_sends_the_changed_body_with_its_own_length() -> None:
    shim, seen = Shim(), list[dict[str, Any]]()

    async def run() -> None:
        async with _served(shim, seen) as http:
            await http.post(CHAT, SAMPLED)
            Parameters({"temperature": 0.123456789}).apply(Target(shim=shim), 0)
            await http.post(CHAT, SAMPLED)
            await http.send("GET", "/health")

    asyncio.run(run())
    assert [one["body"] and one["body"]["temperature"] for one in seen] == [1.0, 0.123456789, None]


def test_a_dropped_request_never_arrives_and_the_others_do() -> None:
    shim, seen = Shim(), list[dict[str, Any]]()
    Dropped(1).apply(Target(shim=shim), 0)

    async def run() -> list[str]:
        told = []
        async with _served(shim, seen) as http:
            for number in range(3):
                try:
                    await http.post(CHAT, {**GREEDY, "seed": number})
                    told.append("answered")
                except httpx.TransportError:
                    told.append("lost")
        return told

    assert asyncio.run(run()) == ["lost", "answered", "answered"]
    assert [one["body"]["seed"] for one in seen] == [1, 2]
