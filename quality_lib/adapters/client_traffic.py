"""Everyday requests of an ordinary OpenAI client, for the demo and for measurements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

QUESTIONS = (
    "Name three fruits.",
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Explain in two sentences why leaves are green.",
    "Give me a short recipe for pancakes.",
    "What does a librarian do?",
    "Suggest a name for a grey cat.",
    "Why do we sleep?",
    "How do I boil an egg?",
    "Write a polite reply that declines an invitation.",
    "What is photosynthesis?",
    "List two uses of baking soda.",
    "Describe a rainy street in one sentence.",
    "What is the difference between a lake and a river?",
    "Give one tip for learning a language.",
    "What is a healthy breakfast?",
)
"""Asked in turn; the number of a round makes each request its own."""


@dataclass(frozen=True)
class Traffic:
    """What came of the requests."""

    answered: int
    failed: int
    seconds: float
    first_failure: str = ""


def send_traffic(
    endpoint: str, model: str, requests: int, *, concurrency: int = 8, max_tokens: int = 64
) -> Traffic:
    """Send everyday chat requests through the OpenAI client library, every second one streamed.

    Failed requests are counted, not raised: a client of a bad server goes on asking.
    """
    return asyncio.run(_send_all(endpoint, model, requests, concurrency, max_tokens))


async def _send_all(
    endpoint: str, model: str, requests: int, concurrency: int, max_tokens: int
) -> Traffic:
    import openai

    began = time.monotonic()
    gate = asyncio.Semaphore(concurrency)
    failures: list[str] = []
    async with openai.AsyncOpenAI(
        base_url=f"{endpoint}/v1", api_key="none", timeout=300.0, max_retries=0
    ) as client:

        async def ask(number: int) -> None:
            async with gate:
                try:
                    await _ask(client, _body(number, model, max_tokens), streamed=number % 2 == 1)
                except openai.OpenAIError as error:
                    failures.append(f"{type(error).__name__}: {error}")

        await asyncio.gather(*(ask(number) for number in range(requests)))
    return Traffic(
        answered=requests - len(failures),
        failed=len(failures),
        seconds=time.monotonic() - began,
        first_failure=failures[0] if failures else "",
    )


def _body(number: int, model: str, max_tokens: int) -> Mapping[str, Any]:
    messages: Sequence[Mapping[str, str]] = [
        {"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}
    ]
    return {
        "model": model,
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0.0 if number < len(QUESTIONS) else 0.7,
        "seed": number,
    }


async def _ask(client: Any, body: Mapping[str, Any], *, streamed: bool) -> None:
    if not streamed:
        await client.chat.completions.create(**body)
        return
    async for _ in await client.chat.completions.create(**body, stream=True):
        pass
