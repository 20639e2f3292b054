"""A client sees the same of a guarded server as of an unguarded one, byte for byte.

The guarded server has everything switched on: details are added to every request and must be taken
out again, and streams are watched to be stopped.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import openai
import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running
from quality_lib.exchanges.parse import parse_exchange
from tests.vllm_server import SERVED_NAME, SERVER_ARGS, START_TIMEOUT_S

pytestmark = pytest.mark.vllm

GUARD = "quality_lib.serving.guard.Guard"
CONFIG = """
services:
  chat:
    endpoint: http://127.0.0.1:8000
    model: chat
    weights: .
    gates:
      reaction: enforce
      # vLLM's own answer to an empty prompt is to be compared.
      disabled: [input_size]
      stream: {{reaction: stop}}
      log:
        folder: {folder}
        detail_share: {detail_share}
        max_file_s: 3600
"""

PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Two engines on few processors: one that waits must not burn the other's time."""

EXCLAMATION_MARK = 17
"""Its token in the packaged model."""

HELLO = [{"role": "user", "content": "Say hello and tell a short story about a lighthouse."}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PERSON: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
        },
    },
}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": HELLO}),
    # vLLM refuses several choices at temperature 0; the best token alone is as steady.
    "chat-n": (CHAT, {"messages": HELLO, "n": 2, "temperature": 1.0, "top_k": 1}),
    "chat-logprobs": (CHAT, {"messages": HELLO, "logprobs": True, "top_logprobs": 2}),
    "chat-token-ids": (CHAT, {"messages": HELLO, "return_token_ids": True}),
    "chat-tools": (CHAT, {"messages": HELLO, "tools": [WEATHER]}),
    "chat-tool-forced": (
        CHAT,
        {
            "messages": HELLO,
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        },
    ),
    "chat-schema": (CHAT, {"messages": HELLO, "response_format": PERSON}),
    "chat-echo": (CHAT, {"messages": HELLO, "echo": True}),
    "chat-wrong-logprobs": (CHAT, {"messages": HELLO, "top_logprobs": 2}),
    "chat-wrong-type": (CHAT, {"messages": "hello"}),
    "chat-wrong-model": (CHAT, {"messages": HELLO, "model": "other"}),
    "chat-logit-bias": (CHAT, {"messages": HELLO, "logit_bias": {"99999999": 1}}),
    "text": (COMPLETIONS, {"prompt": "The lighthouse keeper"}),
    "text-unicode": (COMPLETIONS, {"prompt": "日本語のお話: むかしむかし 🦊"}),
    "text-greedy-n": (COMPLETIONS, {"prompt": ["The sea", "A ship"], "n": 2}),
    "text-prompts": (
        COMPLETIONS,
        {"prompt": ["The sea", "A ship"], "temperature": 0, "seed": 3},
    ),
    "text-ids": (COMPLETIONS, {"prompt": [504, 2121, 314]}),
    "text-echo": (COMPLETIONS, {"prompt": "The sea", "echo": True, "logprobs": 1}),
    "text-logprobs": (COMPLETIONS, {"prompt": "The sea", "logprobs": 2}),
    "text-empty": (COMPLETIONS, {"prompt": ""}),
}


class Pair(NamedTuple):
    guarded: str
    plain: str
    log: Path


@pytest.fixture(scope="module")
def guarded(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Instance]:
    """A server whose guard adds details to every request and has to take them out again."""
    root = tmp_path_factory.mktemp("guarded")
    config = root / "quality.yaml"
    config.write_text(CONFIG.format(folder=root / "log", detail_share=1.0), encoding="utf-8")
    env = {"QUALITY_CONFIG": str(config), "QUALITY_SERVICE": "chat", **PATIENT}
    spec = EngineSpec(
        model_folder, SERVED_NAME, (*SERVER_ARGS, "--middleware", GUARD), env=env, drain_s=10.0
    )
    with running(LocalEngine(root / "engine"), spec, START_TIMEOUT_S) as instance:
        yield instance


@pytest.fixture(scope="module")
def pair(
    guarded: Instance, vllm_server: Instance, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    return Pair(guarded.endpoint, vllm_server.endpoint, guarded.log_path.parents[2] / "log")


def ask(endpoint: str, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(
        endpoint + path,
        json={"model": SERVED_NAME, "temperature": 0, "max_tokens": 16, **body},
        headers={"x-request-id": "the-same"},
        timeout=300,
    )


def comparable(answer: bytes) -> str:
    """Leave out what differs between any two answers: the time, and ids of tool calls."""
    text = re.sub(r'"created":\d+', '"created":0', answer.decode())
    text = re.sub(r'"system_fingerprint":"[^"]*"', '"system_fingerprint":""', text)
    text = re.sub(r'"(chatcmpl-tool-|call_)[0-9a-zA-Z]+"', '"tool"', text)
    # Chunks of several choices come in the order in which the engine happens to be done with them.
    return "\n\n".join(sorted(text.split("\n\n"), key=_choice_of)) if "data: " in text else text


def _choice_of(event: str) -> int:
    index = re.search(r'"choices":\[\{"index":(\d+)', event)
    return int(index[1]) if index else 99


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", REQUESTS)
def test_the_bytes_of_an_answer_are_the_same(pair: Pair, name: str, stream: bool) -> None:
    path, body = REQUESTS[name]
    body = {**body, "stream": True} if stream else body
    for _ in range(5):
        plain, guarded = ask(pair.plain, path, body), ask(pair.guarded, path, body)
        # vLLM joins the tokens of two steps in one event when its web server lags behind.
        if not stream or plain.content.count(b"data: ") == guarded.content.count(b"data: "):
            break
    assert guarded.status_code == plain.status_code
    assert comparable(guarded.content) == comparable(plain.content)
    assert guarded.headers["x-request-id"] == "the-same"
    ours = {"x-request-id", "x-quality-verdict"}
    changing = {"date", "content-length"}
    assert set(guarded.headers) - ours - changing == set(plain.headers) - changing


@pytest.mark.parametrize(
    "options",
    [{"include_usage": True}, {"include_usage": True, "continuous_usage_stats": True}],
    ids=["usage", "running-usage"],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_the_usage_of_a_stream_is_the_same(pair: Pair, path: str, options: dict[str, bool]) -> None:
    asked = {"messages": HELLO} if path == CHAT else {"prompt": "The sea"}
    body = {**asked, "stream": True, "stream_options": options}
    plain, guarded = ask(pair.plain, path, body), ask(pair.guarded, path, body)
    assert comparable(guarded.content) == comparable(plain.content)
    assert b'"usage"' in guarded.content


def test_the_openai_client_gets_the_same(pair: Pair) -> None:
    answers = [_as_a_client(endpoint) for endpoint in (pair.guarded, pair.plain)]
    assert answers[0] == answers[1]
    assert all(answers[0].values())


def _as_a_client(endpoint: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", timeout=300)
    common: Any = {"model": SERVED_NAME, "messages": HELLO, "temperature": 0, "max_tokens": 24}
    found: dict[str, Any] = {}
    with client:
        found["whole"] = client.chat.completions.create(**common).choices[0].message.content
        found["stream"] = [
            chunk.choices[0].delta.content
            for chunk in client.chat.completions.create(**common, stream=True)
        ]
        sampled = {**common, "temperature": 1.0, "n": 2, "extra_body": {"top_k": 1}}
        two = client.chat.completions.create(**sampled, logprobs=True)
        found["two"] = [c.message.content for c in two.choices]
        found["logprobs"] = [
            # Not their values: rounding moves with the batch that two choices happen to share.
            [t.token for t in (c.logprobs.content if c.logprobs else None) or ()]
            for c in two.choices
        ]
        schema = client.chat.completions.create(**common, response_format=PERSON)
        found["schema"] = schema.choices[0].message.content
        choice: Any = {"type": "function", "function": {"name": "get_weather"}}
        longer = {**common, "max_tokens": 64}
        tools = client.chat.completions.create(**longer, tools=[WEATHER], tool_choice=choice)
        said: Any = tools.choices[0].message
        calls = [(c.function.name, c.function.arguments) for c in said.tool_calls or ()]
        # A call that the token limit cuts comes as text.
        found["tools"] = (said.content, calls)
        streamed: Any = client.chat.completions.create(
            **longer, tools=[WEATHER], tool_choice=choice, stream=True
        )
        found["streamed tools"] = [
            (
                delta.content,
                [(c.function.name, c.function.arguments) for c in delta.tool_calls or ()],
            )
            for chunk in streamed
            for delta in (chunk.choices[0].delta,)
        ]
        found["text"] = (
            client.completions
            .create(model=SERVED_NAME, prompt="The sea", temperature=0, max_tokens=8)
            .choices[0]
            .text
        )
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**{**common, "temperature": -1})
        found["error"] = refused.value.body
    found["async"] = asyncio.run(_as_an_async_client(endpoint, common))
    return found


async def _as_an_async_client(endpoint: str, common: Any) -> list[str]:
    async with openai.AsyncOpenAI(base_url=f"{endpoint}/v1", api_key="none", timeout=300) as client:
        stream = await client.chat.completions.create(**common, stream=True)
        return [chunk.choices[0].delta.content or "" async for chunk in stream]


def test_a_client_that_leaves_frees_the_engine(pair: Pair) -> None:
    body = {"model": SERVED_NAME, "messages": HELLO, "max_tokens": 1500, "stream": True}
    body |= {"ignore_eos": True, "temperature": 0}
    with httpx.stream("POST", pair.guarded + CHAT, json=body, timeout=60) as response:
        next(response.iter_lines())
    running = 1.0
    for _ in range(50):
        metrics = httpx.get(f"{pair.guarded}/metrics", timeout=10).text
        running = float(re.findall(r"^vllm:num_requests_running\{.*\} (\S+)", metrics, re.M)[0])
        if not running:
            break
        asyncio.run(asyncio.sleep(0.2))
    assert running == 0
    assert any(r.get("disconnected") for r in records(pair.log))


def test_a_loop_is_stopped(pair: Pair) -> None:
    """Every token is forced to be an exclamation mark, as from a server with dead weights."""
    body = {
        "prompt": "The sea",
        "logit_bias": {str(EXCLAMATION_MARK): 100},
        "max_tokens": 700,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = ask(pair.guarded, COMPLETIONS, body)
    *_, last, usage, done = [x.removeprefix("data: ") for x in answer.text.split("\n\n") if x]
    assert done == "[DONE]"
    assert json.loads(last)["choices"][0]["finish_reason"] == "quality_stop"
    assert 10 < json.loads(usage)["usage"]["completion_tokens"] < 200


def test_every_exchange_is_recorded_and_can_be_read(pair: Pair) -> None:
    name = "for-the-log"
    body = {"model": SERVED_NAME, "messages": HELLO, "max_tokens": 12, "temperature": 0}
    httpx.post(pair.guarded + CHAT, json=body, headers={"x-request-id": name}, timeout=60)
    found = [r for r in records(pair.log) if r["id"] == name]
    assert len(found) == 1
    exchange = parse_exchange(found[0])
    assert exchange.answer is not None
    assert exchange.answer.text
    assert exchange.completion_tokens == 12
    assert exchange.answer.token_ids is not None
    assert exchange.answer.logprobs is not None
    assert len(exchange.answer.token_ids) == len(exchange.answer.logprobs) == 12
    assert exchange.prompt_token_ids is not None
    assert exchange.prompt_tokens == len(exchange.prompt_token_ids)


def records(folder: Path) -> list[dict[str, Any]]:
    """Return what is in the log, after a moment for the thread that writes it."""
    asyncio.run(asyncio.sleep(1.0))
    lines = [
        line
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".jsonl" in file.name
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return [json.loads(line) for line in lines]
