from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.serving.introspection import PATH, WEIGHTS_PATH, Introspection

LOOPBACK = ("127.0.0.1", 1)


class Tokenizer:
    """As much of a tokenizer as the facts look at."""

    bos_token = "<s>"
    chat_template = "{{ messages }}"

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "b": 1}


def vllm_state(**changes: Any) -> SimpleNamespace:
    """vLLM's application state, reduced to what is read."""
    model = SimpleNamespace(
        model="/models/m",
        dtype="torch.bfloat16",
        max_model_len=2048,
        quantization=None,
        get_diff_sampling_param=lambda: {"temperature": 0.6},
    )
    serving_models = SimpleNamespace(
        base_model_paths=[SimpleNamespace(name="chat")],
        lora_requests={2: SimpleNamespace(lora_name="z"), 1: SimpleNamespace(lora_name="a")},
    )
    state = {
        "args": SimpleNamespace(api_key=None),
        "vllm_config": SimpleNamespace(
            model_config=model, cache_config=SimpleNamespace(cache_dtype="auto")
        ),
        "engine_client": SimpleNamespace(
            renderer=SimpleNamespace(get_tokenizer=lambda: Tokenizer())
        ),
        "openai_serving_models": serving_models,
        "online_renderer": SimpleNamespace(chat_template=None),
    }
    return SimpleNamespace(**{**state, **changes})


async def inner(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """The application behind: answers 299 to whatever reaches it."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"inner"})


def ask(
    state: Any,
    *,
    path: str = PATH,
    method: str = "GET",
    client: tuple[str, int] = LOOPBACK,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    argv: tuple[str, ...] = ("server",),
) -> httpx.Response:
    app = Introspection(inner, env=env or {}, argv=argv)

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = SimpleNamespace(state=state)
        await app(scope, receive, send)

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(with_state, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await http.request(method, path, headers=headers)

    return asyncio.run(run())


def test_facts() -> None:
    facts = ask(vllm_state(), argv=("server", "--model", "m", "--api-key", "s3cret")).json()
    assert facts["args"] == ["--model", "m", "--api-key", "***"]
    assert facts["dtype"] == facts["kv_cache_dtype"] == "bfloat16"
    assert facts["max_model_len"] == 2048
    assert facts["generation_config"] == {"temperature": 0.6}
    assert facts["adapters"] == ["a", "z"]
    assert facts["model_path"] == "/models/m"
    assert len(facts["tokenizer_sha256"]) == 64
    assert facts["environment"]["python"].startswith("3.")


@pytest.mark.parametrize("state", [None, SimpleNamespace(), SimpleNamespace(vllm_config=3)])
def test_what_this_vllm_lacks_is_null(state: Any) -> None:
    answer = ask(state)
    assert answer.status_code == 200
    facts = answer.json()
    unseen = {"dtype", "kv_cache_dtype", "max_model_len", "tokenizer_sha256", "adapters"}
    assert {facts[name] for name in unseen} == {None}


def test_another_tokenizer_or_template_has_another_digest() -> None:
    class Grown(Tokenizer):
        chat_template = "{{ messages }} "

        def get_vocab(self) -> dict[str, int]:
            return {"a": 0, "b": 2}

    grown = SimpleNamespace(renderer=SimpleNamespace(get_tokenizer=lambda: Grown()))
    facts, others = ask(vllm_state()).json(), ask(vllm_state(engine_client=grown)).json()
    assert facts["tokenizer_sha256"] != others["tokenizer_sha256"]


@pytest.mark.parametrize(
    ("path", "method"),
    [("/v1/models", "GET"), (PATH, "POST"), (PATH + "/x", "GET"), ("/", "GET")],
)
def test_everything_else_passes_through(path: str, method: str) -> None:
    assert ask(vllm_state(), path=path, method=method).status_code == 299


KEYED = SimpleNamespace(api_key=["first", "second"])


@pytest.mark.parametrize(
    ("state", "request_", "status"),
    [
        (vllm_state(), {}, 200),
        (vllm_state(), {"client": ("10.0.0.7", 1)}, 403),
        (vllm_state(), {"client": ("10.0.0.7", 1), "env": {"QUALITY_INTROSPECTION": "open"}}, 200),
        # a proxy on the same machine makes everybody look local
        (vllm_state(), {"headers": {"X-Forwarded-For": "10.0.0.7"}}, 403),
        (vllm_state(args=KEYED), {}, 401),
        (vllm_state(args=KEYED), {"headers": {"Authorization": "Bearer wrong"}}, 401),
        (vllm_state(args=KEYED), {"headers": {"Authorization": "Basic second"}}, 401),
        (vllm_state(args=KEYED), {"headers": {"Authorization": "Bearer second"}}, 200),
        (
            vllm_state(args=KEYED),
            {"headers": {"Authorization": "Bearer first"}, "client": ("10.0.0.7", 1)},
            200,
        ),
        (vllm_state(), {"env": {"VLLM_API_KEY": "k"}}, 401),
        (
            vllm_state(),
            {"env": {"VLLM_API_KEY": "k"}, "headers": {"Authorization": "Bearer k"}},
            200,
        ),
    ],
)
def test_who_may_ask(state: Any, request_: dict[str, Any], status: int) -> None:
    assert ask(state, **request_).status_code == status


def test_a_broken_look_inside_does_not_stop_the_server_from_starting() -> None:
    reached: list[str] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        reached.append(scope["type"])

    def explode() -> Tokenizer:
        raise RuntimeError("Already borrowed")

    broken = SimpleNamespace(renderer=SimpleNamespace(get_tokenizer=explode))
    scope = {
        "type": "lifespan",
        "app": SimpleNamespace(state=vllm_state(engine_client=broken)),
    }
    asyncio.run(Introspection(behind, env={}, argv=())(scope, None, None))  # type: ignore[arg-type]
    assert reached == ["lifespan"]


@pytest.mark.vllm
def test_on_vllm_every_fact_is_seen_and_nothing_else_changes(vllm_server: Instance) -> None:
    with httpx.Client(base_url=vllm_server.endpoint, timeout=60) as client:
        # The fingerprint after loading may still be on its way; a reading waits for it.
        assert client.get(WEIGHTS_PATH, timeout=600).status_code == 200
        facts = client.get(PATH).json()
        assert client.get("/health").status_code == 200
        assert client.get("/quality/nothing").status_code == 404
        answer = client.post(
            "/v1/completions", json={"model": "chat", "prompt": "Hi", "max_tokens": 2}
        )
        assert answer.status_code == 200
    may_be_null = {"quantization"}
    unseen = {name for name, value in facts.items() if value is None}
    assert unseen <= may_be_null, json.dumps(facts)
    assert facts["dtype"] == "bfloat16"
    assert facts["max_model_len"] == 2048
    assert facts["served_names"] == ["chat"]
