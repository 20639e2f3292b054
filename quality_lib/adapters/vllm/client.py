"""ModelClient over vLLM's OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

from quality_lib.adapters.vllm.http import Refused, VllmHttp
from quality_lib.adapters.vllm.running_requests import RunningRequests
from quality_lib.golden.answer import Answer, Channel, Fault, Probe, ids_digest
from quality_lib.golden.case import GoldenCase

CONTRACT_TEXT = "Zażółć gęślą jaźń — 你好，世界 שלום мир 0123456789 <|im_end|> \t{'a': [1, 2.5e-3]} café naïve ﬁ 👩‍🔬\n"
"""Tokenised on both sides of a comparison: any change of the tokenizer's files moves it."""


class VllmClient:
    """Speaks to one endpoint; bounded by the caller, retries transport faults only."""

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
        self.model = model
        self._http = VllmHttp(
            endpoint,
            timeout_s=timeout_s,
            api_key=api_key,
            transport=transport,
            sleep=sleep,
        )
        self.endpoint = self._http.endpoint
        self._running = RunningRequests(time.monotonic)

    async def __aenter__(self) -> VllmClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def decode(self, case: GoldenCase, probe: Probe, cache_salt: str) -> Answer:
        """Let the model answer the case, with token ids and log-probabilities."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(case.messages),
            "temperature": case.params.temperature,
            "top_p": case.params.top_p,
            # Pinned, so that another default of the server cannot pass for drift of the model.
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "max_tokens": case.params.max_tokens,
            "logprobs": True,
            "return_token_ids": True,
            "cache_salt": cache_salt,
        }
        if case.params.seed is not None:
            body["seed"] = case.params.seed
        if case.tools:
            body["tools"] = list(case.tools)
            body["tool_choice"] = case.tool_choice or "auto"
        if case.response_format:
            body["response_format"] = dict(case.response_format)
        return await self._ask(probe, "/v1/chat/completions", body, _decoded)

    async def score(
        self, case: GoldenCase, probe: Probe, reference: Answer, cache_salt: str = ""
    ) -> Answer:
        """Teacher-force the reference answer (``prompt_logprobs``) and return its tokens' scores.

        Without a salt the prefix cache is the one that all unsalted requests share.
        """
        common: dict[str, Any] = {
            "model": self.model,
            "temperature": 0.0,
            "max_tokens": 1,
            "prompt_logprobs": 0,
            "return_token_ids": True,
            **({"cache_salt": cache_salt} if cache_salt else {}),
        }
        start = len(reference.prompt_token_ids)
        if probe.channel is Channel.RAW_SCORED:
            ids = [*reference.prompt_token_ids, *reference.token_ids]
            body = {**common, "prompt": ids}
            return await self._watched(
                self._ask(
                    probe, "/v1/completions", body, lambda payload: _raw_scored(payload, ids, start)
                )
            )
        body = {
            **common,
            "messages": [*case.messages, {"role": "assistant", "content": reference.text}],
            "continue_final_message": True,
            "add_generation_prompt": False,
        }
        if case.tools:
            # The template may write the tools into the prompt; without them it is another prompt.
            body["tools"] = list(case.tools)
            body["tool_choice"] = "none"
        return await self._watched(
            self._ask(
                probe, "/v1/chat/completions", body, lambda payload: _chat_scored(payload, start)
            )
        )

    async def _watched(self, asked: Awaitable[Answer]) -> Answer:
        """Look at what else the server does while it answers."""
        answer, _ = await asyncio.gather(asked, self._http.watch(self._running))
        return answer

    def take_running(self) -> int | None:
        """Return the most requests under way while answers were scored, since this was last asked."""
        return self._running.take()

    async def contract(self) -> Mapping[str, Any]:
        """Collect exact facts of the interface: names, limits, tokenisation, refusals."""
        models = await self._http.get("/v1/models")
        served = {entry["id"]: entry for entry in models.get("data", [])}
        mine = served.get(self.model)
        facts: dict[str, Any] = {
            "models_served": sorted(served),
            "model_is_served": mine is not None,
            "max_model_len": mine.get("max_model_len") if mine else None,
        }
        user = [{"role": "user", "content": "Hi"}]
        for name, prompt in (
            ("tokenizer", {"prompt": CONTRACT_TEXT}),
            ("chat_template", {"messages": user}),
        ):
            payload = await self._http.expect("/tokenize", {"model": self.model, **prompt})
            tokens = payload.get("tokens")
            facts[f"{name}_ids"] = ids_digest(tokens) if tokens is not None else None
        overlong = "x " * (4 * (facts["max_model_len"] or 8192))
        for name, change in (
            ("rejects_negative_temperature", {"temperature": -1.0}),
            ("rejects_top_p_above_one", {"top_p": 1.5}),
            ("rejects_overlong_prompt", {"messages": [{"role": "user", "content": overlong}]}),
        ):
            body = {"model": self.model, "messages": user, "max_tokens": 1, **change}
            payload = await self._http.expect("/v1/chat/completions", body)
            facts[name] = payload.get("_status")
        return facts

    async def _ask(
        self,
        probe: Probe,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], dict[str, Any]],
    ) -> Answer:
        started = time.perf_counter()
        try:
            payload = await self._http.post(path, body)
            fields = read(payload)
        except Refused as error:
            return Answer(probe, fault=Fault.REFUSED, error=str(error))
        except (httpx.TransportError, httpx.DecodingError) as error:
            words = str(error) or type(error).__name__
            return Answer(probe, fault=Fault.TRANSPORT, error=words)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            # A 200 whose body is no answer is the server's fault, not the network's.
            words = f"the answer cannot be read: {type(error).__name__}: {error}"
            return Answer(probe, fault=Fault.REFUSED, error=words)
        return Answer(probe, latency_ms=(time.perf_counter() - started) * 1000, **fields)


def _decoded(payload: Mapping[str, Any]) -> dict[str, Any]:
    choice = payload["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls") or ()
    content = (choice.get("logprobs") or {}).get("content") or ()
    return {
        "text": _storable(message.get("content") or ""),
        "tool_calls": tuple(
            {
                "name": _storable(c["function"]["name"]),
                "arguments": _storable(c["function"]["arguments"]),
            }
            for c in calls
        ),
        "finish_reason": choice.get("finish_reason"),
        "prompt_token_ids": tuple(payload.get("prompt_token_ids") or ()),
        "token_ids": tuple(choice.get("token_ids") or ()),
        "logprobs": tuple(entry.get("logprob") for entry in content),
    }


def _storable(text: str) -> str:
    """Replace half surrogate pairs, which JSON can carry and UTF-8 files cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _raw_scored(payload: Mapping[str, Any], ids: Sequence[int], start: int) -> dict[str, Any]:
    return _scores(payload["choices"][0]["prompt_logprobs"], ids, start)


def _chat_scored(payload: Mapping[str, Any], start: int) -> dict[str, Any]:
    ids = payload["prompt_token_ids"]
    return {
        **_scores(payload["prompt_logprobs"], ids, start),
        "prompt_token_ids": tuple(ids[:start]),
    }


def _scores(entries: Sequence[Any], ids: Sequence[int], start: int) -> dict[str, Any]:
    if len(entries) != len(ids):
        raise ValueError(f"{len(entries)} prompt log-probabilities for {len(ids)} tokens")
    pairs = list(zip(ids, entries, strict=True))[start:]
    return {
        "token_ids": tuple(token for token, _ in pairs),
        "logprobs": tuple(
            (entry or {}).get(str(token), {}).get("logprob") for token, entry in pairs
        ),
    }
