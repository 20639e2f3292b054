"""Reference replay on a real server: its own answers agree, an altered token and another model do not."""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from quality_lib.adapters.engine.port import Instance
from quality_lib.adapters.vllm.replay_client import ReplayClient, replay_all
from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.records import Tri
from quality_lib.scoring.limits import ReplayLimits
from quality_lib.scoring.replay import (
    Contradiction,
    Replayed,
    ReplayTotals,
    Skip,
    hold_against,
    judge_replay,
    skipped,
    totals_of,
)

pytestmark = pytest.mark.vllm
LIMITS = ReplayLimits()
TEMPERATURES = (0.0, 0.7, 1.0, 1.2)
QUESTIONS = (
    "What is the capital of France?",
    "Write two sentences about the sea.",
    "Wie funktioniert ein Kühlschrank?",
    "Give me a short Python function that adds two numbers.",
    "Name three rivers in Asia.",
)


def served(server: Instance, question: str, temperature: float, seed: int) -> Exchange:
    """Return an exchange as the guarded server records one with details."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": question},
    ]
    params = {"temperature": temperature, "max_tokens": 48, "seed": seed}
    body = {
        "model": server.served_name,
        "messages": messages,
        "logprobs": True,
        "return_token_ids": True,
        **params,
    }
    got: dict[str, Any] = httpx.post(
        f"{server.endpoint}/v1/chat/completions", json=body, timeout=300
    ).json()
    choice = got["choices"][0]
    return Exchange(
        id=f"{temperature}-{seed}",
        messages=tuple(messages),
        params=params,
        answer=Answer(
            choice["message"]["content"],
            finish_reason=choice["finish_reason"],
            token_ids=tuple(choice["token_ids"]),
            logprobs=tuple(t["logprob"] for t in choice["logprobs"]["content"]),
        ),
        prompt_tokens=got["usage"]["prompt_tokens"],
        prompt_token_ids=tuple(got["prompt_token_ids"]),
    )


@pytest.fixture(scope="module")
def exchanges(vllm_server: Instance) -> list[Exchange]:
    """Answers at every temperature, generated together, as production batches them."""
    with ThreadPoolExecutor(8) as pool:
        return list(
            pool.map(
                lambda job: served(vllm_server, *job),
                [
                    (question, temperature, seed)
                    for seed, question in enumerate(QUESTIONS)
                    for temperature in TEMPERATURES
                ],
            )
        )


def replayed(server: Instance, exchanges: list[Exchange]) -> ReplayTotals:
    async def work() -> list[Replayed | Skip]:
        async with ReplayClient(server.endpoint, server.served_name, timeout_s=300) as client:
            return await replay_all(client, exchanges)

    total = ReplayTotals()
    for exchange, said in zip(exchanges, asyncio.run(work()), strict=True):
        total += (
            skipped(said)
            if isinstance(said, Skip)
            else totals_of(hold_against(exchange, said, LIMITS), LIMITS)
        )
    return total


def test_a_servers_own_answers_agree_at_every_temperature(
    vllm_server: Instance, exchanges: list[Exchange]
) -> None:
    total = replayed(vllm_server, exchanges)
    print(f"mean {total.mean_difference} largest {total.largest} tokens {total.tokens}")
    assert (total.rows, total.skipped) == (len(exchanges), {})
    changed, verdict = judge_replay(total, LIMITS)
    assert (changed, verdict.reason) == (Tri.NO, "replay_agrees"), verdict
    assert total.compared == total.tokens
    assert total.largest < LIMITS.token_difference


def test_the_prompt_can_be_written_again_from_the_messages(
    vllm_server: Instance, exchanges: list[Exchange]
) -> None:
    bare = [dataclasses.replace(e, prompt_token_ids=None) for e in exchanges[:3]]
    total = replayed(vllm_server, bare)
    assert (total.rows, total.flagged) == (3, 0)
    cut = dataclasses.replace(bare[0], messages=(bare[0].messages or ())[1:])
    assert replayed(vllm_server, [cut]).skipped == {Skip.PROMPT_DIFFERS.value: 1}


def test_an_altered_token_is_found_where_it_stands(
    vllm_server: Instance, exchanges: list[Exchange]
) -> None:
    own = max(exchanges, key=lambda e: len(e.answer.token_ids or ()) if e.answer else 0)
    assert own.answer is not None
    assert own.answer.token_ids is not None
    ids = list(own.answer.token_ids)
    ids[5] = 12_345 if ids[5] != 12_345 else 23_456
    altered = dataclasses.replace(own, answer=dataclasses.replace(own.answer, token_ids=tuple(ids)))
    total = replayed(vllm_server, [altered])
    assert total.flagged == 1
    first = total.shown[0].bad[0]
    assert first.position == 5
    assert first.contradiction in {Contradiction.IMPOSSIBLE, Contradiction.DISAGREES}


def test_answers_to_another_prompt_are_another_model(
    vllm_server: Instance, exchanges: list[Exchange]
) -> None:
    """A polluted cache: the answers belong to other prompts than the log says."""
    prompts = [e.prompt_token_ids for e in exchanges]
    shifted = [
        dataclasses.replace(e, prompt_token_ids=prompts[(n + 4) % len(prompts)])
        for n, e in enumerate(exchanges)
    ]
    changed, verdict = judge_replay(replayed(vllm_server, shifted), LIMITS)
    assert changed is Tri.YES, verdict
