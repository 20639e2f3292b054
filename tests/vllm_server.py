"""The real model and the real vLLM server that a test session shares."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bench.packaged import packaged_model
from quality_lib.adapters.engine.local import LocalEngine
from quality_lib.adapters.engine.port import EngineSpec, Instance, running

SERVED_NAME = "chat"
SERVER_ARGS = (
    *("--max-model-len", "2048"),
    "--enforce-eager",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
)
START_TIMEOUT_S = 600.0
"""A start takes 45 s on a quiet machine and several times that on a busy one."""

ENDPOINT_ENV = "QUALITY_TEST_ENDPOINT"
"""Address of a server that already runs: spares the minute of a start while writing tests."""


@contextmanager
def running_server(model: Path, state_dir: Path, *args: str) -> Generator[Instance]:
    """Give a warmed-up vLLM server with ``SERVER_ARGS`` and ``args``; stop it at the end."""
    spec = EngineSpec(model, SERVED_NAME, (*SERVER_ARGS, *args), drain_s=10.0)
    with running(LocalEngine(state_dir), spec, START_TIMEOUT_S) as instance:
        yield instance


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The packaged SmolLM2, converted once into the cache that ``quality`` itself uses."""
    return packaged_model()


@pytest.fixture(scope="session")
def vllm_server(
    model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Instance]:
    endpoint = os.environ.get(ENDPOINT_ENV)
    if endpoint:
        yield _foreign(endpoint.rstrip("/"))
        return
    with running_server(model_folder, tmp_path_factory.mktemp("engine")) as instance:
        yield instance


def _foreign(endpoint: str) -> Instance:
    answer = httpx.get(f"{endpoint}/v1/models", timeout=5).raise_for_status()
    served = next(m for m in answer.json()["data"] if m["id"] == SERVED_NAME)
    return Instance(
        id="foreign",
        endpoint=endpoint,
        pid=0,
        log_path=Path(os.devnull),
        model_path=Path(served["root"]),
        served_name=SERVED_NAME,
        started_at="",
        args=SERVER_ARGS,
    )
