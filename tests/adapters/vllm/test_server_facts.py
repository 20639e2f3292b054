from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.machine.ports import free_port
from quality_lib.adapters.vllm.server_facts import observe_environment, observe_server
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.serving.tokenizer_facts import chat_template_sha256, tokenizer_sha256
from quality_lib.snapshots.manifest import EnvironmentRecord
from quality_lib.snapshots.startup_check import ServerFacts

MODELS = {
    "data": [
        {"id": "chat", "root": "/models/m", "max_model_len": 2048, "parent": None},
        {"id": "french", "root": "/lora/fr", "parent": "chat"},
    ]
}
TOLD = {
    "vllm_version": "0.32.0",
    "args": ["--model", "/models/m"],
    "dtype": "bfloat16",
    "max_model_len": 2048,
    "generation_config": {"top_p": 0.9},
    "adapters": [],
    "model_path": "/models/m",
    "live_fingerprint": "v1-a-b",
    "environment": {"torch": "2.13.0", "gpu": None, "surprise": 1},
}


def server(answers: Mapping[str, Any]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.get(request.url.path, (404, {}))
        status, body = found if isinstance(found, tuple) else (200, found)
        return httpx.Response(status, text=body if isinstance(body, str) else json.dumps(body))

    return httpx.MockTransport(answer)


def test_the_middleware_tells_all() -> None:
    transport = server({"/v1/models": MODELS, "/quality/server": TOLD})
    assert observe_server("http://x/", "chat", transport=transport) == ServerFacts(
        vllm_version="0.32.0",
        args=("--model", "/models/m"),
        dtype="bfloat16",
        max_model_len=2048,
        generation_config={"top_p": 0.9},
        adapters=(),
        weights_path="/models/m",
        live_fingerprint="v1-a-b",
    )
    assert observe_environment("http://x", transport=transport) == EnvironmentRecord(torch="2.13.0")


@pytest.mark.parametrize("middleware", [(404, {}), (403, {}), (200, "<html>"), (200, [1])])
def test_without_the_middleware_the_rest_stays_unknown(middleware: Any) -> None:
    transport = server({
        "/v1/models": MODELS,
        "/version": {"version": "0.31.0"},
        "/quality/server": middleware,
    })
    assert observe_server("http://x", "chat", transport=transport) == ServerFacts(
        vllm_version="0.31.0", max_model_len=2048, adapters=("french",), weights_path="/models/m"
    )
    assert observe_environment("http://x", transport=transport) == EnvironmentRecord()


def test_a_fact_of_the_wrong_type_is_not_believed() -> None:
    told = TOLD | {"max_model_len": "2048", "args": "--model m", "dtype": 16}
    transport = server({"/v1/models": MODELS, "/quality/server": told})
    facts = observe_server("http://x", "chat", transport=transport)
    assert (facts.max_model_len, facts.args, facts.dtype) == (None, None, None)


@pytest.mark.parametrize(
    ("answers", "error", "message"),
    [
        ({"/v1/models": (401, {})}, BadInput, "refuses the API key"),
        ({"/v1/models": MODELS | {"data": []}}, BadInput, "it serves: nothing"),
        ({"/v1/models": {"data": [{"id": "other"}]}}, BadInput, "it serves: other"),
        ({"/v1/models": (502, "<html>")}, OutsideFailure, "answers 502"),
        ({"/v1/models": {"data": ["x"]}}, OutsideFailure, "is this a vLLM server"),
    ],
)
def test_a_server_that_cannot_be_asked(
    answers: Mapping[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        observe_server("http://x", "chat", transport=server(answers))


@pytest.mark.parametrize(
    "observe", [lambda url: observe_server(url, "chat"), observe_environment], ids=["server", "env"]
)
def test_nobody_there(observe: Callable[[str], object]) -> None:
    with pytest.raises(OutsideFailure, match="does not answer"):
        observe(f"http://127.0.0.1:{free_port()}")


def test_the_key_is_sent() -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, json=MODELS)

    observe_server("http://x", "chat", "k", httpx.MockTransport(answer))
    assert set(seen) == {"Bearer k"}


@pytest.mark.vllm
def test_vllm_reports_what_its_folder_holds(vllm_server: Instance, model_folder: Path) -> None:
    from transformers import AutoTokenizer

    facts = observe_server(vllm_server.endpoint, vllm_server.served_name)
    tokenizer = AutoTokenizer.from_pretrained(model_folder, local_files_only=True)
    assert facts.tokenizer_sha256 == tokenizer_sha256(tokenizer)
    assert facts.chat_template_sha256 == chat_template_sha256(tokenizer.chat_template)
    assert None not in {facts.tokenizer_sha256, facts.chat_template_sha256}
    assert facts.adapters == ()
    assert facts.kv_cache_dtype == "bfloat16"
    assert observe_environment(vllm_server.endpoint).torch is not None
