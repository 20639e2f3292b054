"""The live-weights fingerprint inside a real vLLM server, whose weights are damaged bit by bit."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running
from quality_lib.adapters.engine.signals import SignalSource
from quality_lib.adapters.engine.watch import look
from quality_lib.adapters.vllm.live_weights import LiveFingerprint, take_fingerprint
from quality_lib.records import Tri
from quality_lib.rollout.engine_limits import EngineLimits
from tests.vllm_server import SERVED_NAME, SERVER_ARGS, START_TIMEOUT_S

pytestmark = pytest.mark.vllm

LAYER = "model.layers.3."


@pytest.fixture(scope="module")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Instance]:
    """Give a server that also takes orders to flip bits, and counts NaN."""
    spec = EngineSpec(
        model_folder,
        SERVED_NAME,
        (
            *SERVER_ARGS,
            *("--worker-extension-cls", "tests.serving.flipping.FlipWorker"),
            *("--middleware", "tests.serving.flipping.Flipping"),
        ),
        env={"VLLM_COMPUTE_NANS_IN_LOGITS": "1"},
        drain_s=10.0,
    )
    folder = tmp_path_factory.mktemp("live-weights")
    with running(LocalEngine(folder), spec, START_TIMEOUT_S) as instance:
        yield instance


def take(server: Instance) -> LiveFingerprint:
    return take_fingerprint(server.endpoint, timeout_s=600)


def flip(server: Instance, name: str, element: int, bit: int) -> None:
    params: dict[str, str | int] = {"name": name, "element": element, "bit": bit}
    answer = httpx.post(f"{server.endpoint}/flip", params=params, timeout=300)
    assert answer.status_code == 204, answer.text


def test_everything_is_seen_and_stays_the_same(server: Instance, model_folder: Path) -> None:
    first, second = (take(server) for _ in range(2))
    assert first.fingerprint == second.fingerprint == first.loaded_fingerprint
    assert (first.unseen, first.restless, second.restless) == ((), (), ())
    # The output layer is a packed copy of the embedding, so more lies in memory than on disk.
    on_disk = sum(file.stat().st_size for file in model_folder.glob("*.safetensors"))
    assert first.size > on_disk * 0.99


@pytest.mark.parametrize(
    ("name", "element", "bit"),
    [
        ("model.embed_tokens.weight", 1000, 0),
        (LAYER + "input_layernorm.weight", 100, 0),
        (LAYER + "self_attn.rotary_emb.cos_sin_cache", 500, 3),
        # What the CPU back-end packs: asked of oneDNN by the operation itself…
        (LAYER + "mlp.down_proj.cpu_linear.handler", 77_777, 0),
        (LAYER + "mlp.gate_up_proj.cpu_linear.handler", 5, 15),
    ],
)
def test_one_bit_is_named(server: Instance, name: str, element: int, bit: int) -> None:
    flip(server, name, element, bit)
    damaged = take(server)
    flip(server, name, element, bit)
    assert damaged.changed_tensors == 1
    # Layers share one rotary table, which is counted under the first one's name.
    assert str(damaged.changed[0]["name"]).rpartition(".")[2] == name.rpartition(".")[2]
    assert take(server).fingerprint == damaged.loaded_fingerprint


def test_another_start_gives_the_same_fingerprint(server: Instance, vllm_server: Instance) -> None:
    here, there = take(server), take(vllm_server)
    assert here.loaded_fingerprint == there.loaded_fingerprint


def test_the_signals_of_a_healthy_server(server: Instance) -> None:
    body = {"model": SERVED_NAME, "prompt": "One, two, three", "max_tokens": 8}
    for _ in range(2):
        httpx.post(f"{server.endpoint}/v1/completions", json=body, timeout=300).raise_for_status()
    source = SignalSource(server.endpoint, log=server.log_path, log_is_own=True)
    _, reading = look(source, None, EngineLimits(), datetime.now(UTC))
    findings, _ = look(source, reading, EngineLimits(), datetime.now(UTC))
    states = {finding.name: finding.state for finding in findings}
    assert Tri.YES not in states.values()
    known = {name for name, state in states.items() if state is Tri.NO}
    assert known >= {
        "engine_health",
        "corrupted_requests",
        "kv_leak",
        "preemption_storm",
        "engine_errors",
        "live_weights",
    }
