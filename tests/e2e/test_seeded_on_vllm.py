"""Requests with a seed among prompts that fill the server's batch: the engine must outlive them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from tests.vllm_server import SERVED_NAME

pytestmark = pytest.mark.vllm

PROMPTS = 6
WORDS = 450
"""Of about three tokens each: together more than a CPU build reads in one step by default (4,096)."""


def test_seeded_requests_survive_a_full_batch(vllm_server: Instance) -> None:
    with (
        httpx.Client(base_url=vllm_server.endpoint, timeout=600, trust_env=False) as client,
        ThreadPoolExecutor(PROMPTS) as pool,
    ):

        def ask(number: int) -> int:
            # The number in front keeps the prefix cache out of it.
            text = f"{number} " + " ".join(str(n % 97) for n in range(number, number + WORDS))
            body = {
                "model": SERVED_NAME,
                "prompt": text,
                "max_tokens": 2,
                "temperature": 1.0,
                "seed": number,
            }
            answer = client.post("/v1/completions", json=body)
            answer.raise_for_status()
            return int(answer.json()["usage"]["prompt_tokens"])

        read = list(pool.map(ask, range(1, PROMPTS + 1)))
        assert sum(read) > 4096
        assert max(read) < 2000
        assert client.get("/health").status_code == 200
