"""Level 3 inside a real vLLM server: entropies arrive, and flat steps are drawn cooler."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running
from quality_lib.adapters.vllm.learning_probe import ask_for_learning
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.level_stream import StreamMonitor
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.golden.case import GoldenCase
from quality_lib.serving.engine_features import (
    EngineFeatures,
    is_engine_stop,
    with_repetition_detection,
)
from quality_lib.serving.entropy_reader import EntropyReader
from tests.vllm_server import SERVED_NAME, SERVER_ARGS, START_TIMEOUT_S

pytestmark = pytest.mark.vllm

PROCESSOR = "quality_lib.serving.logits_processor_v1:EntropyProcessor"
HEADER = "quality_lib.serving.entropy_header.EntropyHeader"
CONFIG = """
services:
  chat:
    endpoint: http://127.0.0.1:1
    model: chat
    weights: w
    gates: {reaction: enforce, stream: {reaction: correct, max_step_entropy: 4.0}}
"""
PROMPTS = ["Name the capital of France.", "What is water made of?", "Count from one to ten."]


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Instance]:
    """Give a server that corrects, with the V1 processor."""
    folder = tmp_path_factory.mktemp("level3")
    config = folder / "quality.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    spec = EngineSpec(
        model_folder,
        SERVED_NAME,
        (*SERVER_ARGS, "--logits-processors", PROCESSOR, "--middleware", HEADER),
        env={"QUALITY_CONFIG": str(config)},
        drain_s=10.0,
    )
    with running(LocalEngine(folder / "engine"), spec, START_TIMEOUT_S) as instance:
        yield instance


@pytest.fixture
def reader(server: Instance) -> EntropyReader:
    return EntropyReader(anchor=server.pid)


def ask(server: Instance, prompt: str, **fields: Any) -> Any:
    body = {
        "model": SERVED_NAME,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 40,
        "logprobs": True,
        "return_token_ids": True,
        # No prefix is shared, so that equal requests are computed in the same way.
        "cache_salt": uuid.uuid4().hex,
        **fields,
    }
    answer = httpx.post(f"{server.endpoint}/v1/chat/completions", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def logprobs(choice: Any) -> list[float]:
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


def test_entropies_of_a_request_arrive_in_step(server: Instance, reader: EntropyReader) -> None:
    before = reader.counts()
    assert before is not None
    reader.follow("mine")
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(ask, server, p, temperature=1.0, seed=1) for p in PROMPTS]
        choice = ask(server, PROMPTS[0], temperature=0.0, vllm_xargs={"quality_id": "mine"})
        for other in others:
            other.result()
    values = reader.leave("mine")
    assert len(values) == len(choice["token_ids"])
    assert all(0 <= value <= math.log(49152) for value in values)
    # A token with probability p leaves at most so little entropy behind: a sure token, a low value.
    for value, logprob in zip(values, logprobs(choice), strict=True):
        if logprob > -0.001:
            assert value < 0.05
    after = reader.counts()
    assert after is not None
    assert after.rows - before.rows >= 4 * 8
    assert after.nan_rows == 0
    monitor = StreamMonitor(StreamLimits(), LearnedBounds())
    monitor.feed(choice["message"]["content"], choice["token_ids"], logprobs(choice), values)
    monitor.finish(choice["finish_reason"])
    assert not {v.outcome for v in monitor.verdicts} & {"SUSPECT", "FAILED"}


def test_greedy_answers_are_the_same_with_and_without_correction(
    server: Instance, reader: EntropyReader
) -> None:
    before = reader.counts()
    for prompt in PROMPTS:
        on = ask(server, prompt, temperature=0.0)
        off = ask(server, prompt, temperature=0.0, vllm_xargs={"quality_correct": "off"})
        assert on["token_ids"] == off["token_ids"]
        assert logprobs(on) == logprobs(off)
    after = reader.counts()
    assert before is not None
    assert after is not None
    assert after.corrected_rows == before.corrected_rows


def test_a_hot_request_is_corrected_unless_it_says_no(
    server: Instance, reader: EntropyReader
) -> None:
    hot = {"temperature": 2.0, "seed": 5, "max_tokens": 64, "ignore_eos": True}
    before = reader.counts()
    off = [ask(server, p, **hot, vllm_xargs={"quality_correct": "off"}) for p in PROMPTS]
    between = reader.counts()
    on = [ask(server, p, **hot) for p in PROMPTS]
    after = reader.counts()
    assert before is not None
    assert between is not None
    assert after is not None
    assert between.corrected_rows == before.corrected_rows
    assert after.corrected_rows - between.corrected_rows > 10
    mean_off = [sum(v) / len(v) for v in map(logprobs, off)]
    mean_on = [sum(v) / len(v) for v in map(logprobs, on)]
    # Soup against text: the corrected answers are what the model itself finds likely.
    assert all(a > b + 1.5 for a, b in zip(mean_on, mean_off, strict=True)), (mean_on, mean_off)


def test_wrong_arguments_are_refused(server: Instance) -> None:
    body = {
        "model": SERVED_NAME,
        "messages": [{"role": "user", "content": "Hi"}],
        "vllm_xargs": {"quality_correct": "never"},
    }
    answer = httpx.post(f"{server.endpoint}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert "quality_correct" in answer.text


def test_the_engine_stops_a_repetition_when_it_is_asked_to(server: Instance) -> None:
    limits = StreamLimits(reaction="stop", engine_repeats=20)
    features = EngineFeatures(repetition_detection=True)
    params = {
        "temperature": 0.0,
        "max_tokens": 400,
        "logit_bias": {"46": 100.0},
        "ignore_eos": True,
    }
    choice = ask(server, "Hi", **with_repetition_detection(params, limits, features))
    assert is_engine_stop(choice["finish_reason"], choice.get("stop_reason"))
    assert len(choice["token_ids"]) == 20
    monitor = StreamMonitor(limits, LearnedBounds())
    assert [v.reason for v in monitor.finish(choice["finish_reason"])] == [
        "stream_engine_repetition"
    ]


def test_a_learning_pass_gets_log_probabilities_and_entropies(server: Instance) -> None:
    cases = [GoldenCase(str(i), ({"role": "user", "content": p},)) for i, p in enumerate(PROMPTS)]
    answers = ask_for_learning(
        server.endpoint, SERVED_NAME, cases, concurrency=3, timeout_s=300, api_key=None
    )
    for answer in answers:
        assert len(answer.logprobs) == len(answer.entropies) > 0
        surprise = -sum(v for v in answer.logprobs if v is not None) / len(answer.logprobs)
        entropy = sum(answer.entropies) / len(answer.entropies)
        # At temperature 1 the surprise of what is drawn is the entropy, up to chance.
        assert abs(surprise - entropy) < 1.0


def test_cost_is_told(server: Instance, reader: EntropyReader) -> None:
    """No limit is asserted here; the numbers go into the log of the run."""
    for batch in (1, 8):
        started, before = time.perf_counter(), reader.counts()
        with ThreadPoolExecutor(batch) as pool:
            list(pool.map(lambda _: ask(server, PROMPTS[1], temperature=1.0), range(batch)))
        after = reader.counts()
        assert before is not None
        assert after is not None
        took = time.perf_counter() - started
        print(
            json.dumps({"batch": batch, "steps": after.steps - before.steps, "s": round(took, 2)})
        )
