"""Reference replay over vLLM's HTTP interface: a healthy instance reads served answers again (G6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

import httpx

from quality_lib.adapters.vllm.http import Refused, VllmHttp
from quality_lib.errors import OutsideFailure
from quality_lib.exchanges.exchange import Exchange
from quality_lib.scoring.replay import Replayed, Skip, holds_masks

CONCURRENCY = 4
"""Scoring requests at once; each is one prefill."""
_TEMPLATE_FIELDS = ("chat_template_kwargs", "add_generation_prompt", "continue_final_message")
_OF_THE_REQUEST = (400, 413, 422)
"""Refusals of this one prompt; any other (wrong key, wrong model name) concerns all of them."""


class ReplayClient:
    """One healthy instance of the serving snapshot."""

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        timeout_s: float = 120.0,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.model = model
        self._http = VllmHttp(
            endpoint,
            timeout_s=timeout_s,
            api_key=api_key,
            transport=transport,
            sleep=sleep,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._http.__aexit__(*error)

    async def replay(self, exchange: Exchange) -> Replayed | Skip:
        """Return what the reference says of each token of an answer, or why it cannot be asked.

        Raises:
            OutsideFailure: the reference does not answer.
        """
        answer = exchange.answer
        if answer is None or not answer.token_ids:
            return Skip.NO_TOKENS
        try:
            prompt = await self._prompt_ids(exchange)
            if isinstance(prompt, Skip):
                return prompt
            ids = [*prompt, *answer.token_ids]
            body = {
                "model": self.model,
                "prompt": ids,
                "temperature": 0.0,
                "max_tokens": 1,
                "prompt_logprobs": 1,  # the likeliest token besides the one that stands there
            }
            payload = await self._http.post("/v1/completions", body)
            return _replayed(payload["choices"][0]["prompt_logprobs"], ids, len(prompt))
        except Refused as error:
            if error.status in _OF_THE_REQUEST:
                return Skip.REFUSED
            raise OutsideFailure(f"the reference {self.endpoint} failed: {error}") from error
        except httpx.HTTPError as error:
            raise OutsideFailure(
                f"the reference {self.endpoint} does not answer: {str(error) or type(error).__name__}"
            ) from error
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutsideFailure(
                f"the reference {self.endpoint} gave an answer that cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error

    async def _prompt_ids(self, exchange: Exchange) -> Sequence[int] | Skip:
        """Return the prompt's tokens: as recorded, else as the reference's own template writes them."""
        if exchange.prompt_token_ids:
            return exchange.prompt_token_ids
        if holds_masks(exchange.asked):
            return Skip.MASKED
        if exchange.messages is not None:
            body: dict[str, Any] = {"model": self.model, "messages": list(exchange.messages)}
            if exchange.tools:
                body["tools"] = list(exchange.tools)
            body |= {k: exchange.params[k] for k in _TEMPLATE_FIELDS if k in exchange.params}
        elif exchange.prompt is not None:
            body = {"model": self.model, "prompt": exchange.prompt}
        else:
            return Skip.NO_PROMPT
        payload = await self._http.post("/tokenize", body)
        ids = [int(token) for token in payload["tokens"]]
        if exchange.prompt_tokens is None or exchange.prompt_tokens != len(ids):
            # Masked, cut, or another template: what the server read is not what we would write.
            return Skip.PROMPT_DIFFERS
        return ids


def _replayed(
    entries: Sequence[Mapping[str, Mapping[str, Any]] | None], ids: Sequence[int], start: int
) -> Replayed:
    if len(entries) != len(ids):
        raise ValueError(f"{len(entries)} prompt log-probabilities for {len(ids)} tokens")
    logprobs: list[float | None] = []
    best: list[float | None] = []
    pieces: list[str] = []
    for token, entry in list(zip(ids, entries, strict=True))[start:]:
        known = entry or {}
        own = known.get(str(token)) or {}
        logprobs.append(own.get("logprob"))
        best.append(max((v["logprob"] for v in known.values()), default=None))
        pieces.append(str(own.get("decoded_token") or ""))
    return Replayed(tuple(logprobs), tuple(best), tuple(pieces))


async def replay_all(
    client: ReplayClient,
    exchanges: Sequence[Exchange],
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[Replayed | Skip]:
    """Replay several answers, a few at a time; order is kept.

    Raises:
        OutsideFailure: the reference does not answer; nothing is then known of any.
    """
    gate, done = asyncio.Semaphore(CONCURRENCY), 0

    async def one(exchange: Exchange) -> Replayed | Skip:
        nonlocal done
        async with gate:
            found = await client.replay(exchange)
        done += 1
        progress("replay", done, len(exchanges))
        return found

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(exchange)) for exchange in exchanges]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the others failed of the same server
    return [task.result() for task in tasks]
