"""ModelClient over vLLM's OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx
import tenacity

from quality_lib.errors import OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, Probe, ids_digest
from quality_lib.golden.case import GoldenCase

RETRIED_STATUS = frozenset({408, 429, 502, 503, 504})
"""Answers of a proxy or an overloaded server. A 500 is the engine's own word and is not retried."""

ATTEMPTS = 4

CONTRACT_TEXT = "Zażółć gęślą jaźń — 你好，世界 שלום мир 0123456789 <|im_end|> \t{'a': [1, 2.5e-3]} café naïve ﬁ 👩‍🔬\n"
"""Tokenised on both sides of a comparison: any change of the tokenizer's files moves it."""

PROBE_HEADER = {"x-quality-probe": "golden"}
"""Marks our own traffic, so that log scoring can leave it out."""


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:300]}")


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, (httpx.TransportError, httpx.DecodingError))


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
        self.endpoint = endpoint.rstrip("/")
        self.model = model
        self._sleep = sleep
        headers = {**PROBE_HEADER, **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
        self._http = httpx.AsyncClient(
            base_url=self.endpoint,
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            limits=httpx.Limits(max_connections=None),
            headers=headers,
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> VllmClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

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

    async def score(self, case: GoldenCase, probe: Probe, reference: Answer) -> Answer:
        """Teacher-force the reference answer (``prompt_logprobs``) and return its tokens' scores."""
        common = {
            "model": self.model,
            "temperature": 0.0,
            "max_tokens": 1,
            "prompt_logprobs": 0,
            "return_token_ids": True,
        }
        start = len(reference.prompt_token_ids)
        if probe.channel is Channel.RAW_SCORED:
            ids = [*reference.prompt_token_ids, *reference.token_ids]
            body = {**common, "prompt": ids}
            return await self._ask(
                probe, "/v1/completions", body, lambda payload: _raw_scored(payload, ids, start)
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
        return await self._ask(
            probe, "/v1/chat/completions", body, lambda payload: _chat_scored(payload, start)
        )

    async def contract(self) -> Mapping[str, Any]:
        """Collect exact facts of the interface: names, limits, tokenisation, refusals."""
        models = await self._get("/v1/models")
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
            payload = await self._expect("/tokenize", {"model": self.model, **prompt})
            tokens = payload.get("tokens")
            facts[f"{name}_ids"] = ids_digest(tokens) if tokens is not None else None
        overlong = "x " * (4 * (facts["max_model_len"] or 8192))
        for name, change in (
            ("rejects_negative_temperature", {"temperature": -1.0}),
            ("rejects_top_p_above_one", {"top_p": 1.5}),
            ("rejects_overlong_prompt", {"messages": [{"role": "user", "content": overlong}]}),
        ):
            body = {"model": self.model, "messages": user, "max_tokens": 1, **change}
            payload = await self._expect("/v1/chat/completions", body)
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
            payload = await self._post(path, body)
            fields = read(payload)
        except _Refused as error:
            return Answer(probe, fault=Fault.REFUSED, error=str(error))
        except (httpx.TransportError, httpx.DecodingError) as error:
            words = str(error) or type(error).__name__
            return Answer(probe, fault=Fault.TRANSPORT, error=words)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            # A 200 whose body is no answer is the server's fault, not the network's.
            words = f"the answer cannot be read: {type(error).__name__}: {error}"
            return Answer(probe, fault=Fault.REFUSED, error=words)
        return Answer(probe, latency_ms=(time.perf_counter() - started) * 1000, **fields)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        response = await self._send("POST", path, body)
        if response.status_code != httpx.codes.OK:
            if response.status_code in RETRIED_STATUS:
                raise httpx.ReadError(f"HTTP {response.status_code}: {response.text[:200]}")
            raise _Refused(response.status_code, response.text)
        return response.json()

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=8),
            retry=tenacity.retry_if_exception(_is_lost)
            | tenacity.retry_if_result(lambda r: r.status_code in RETRIED_STATUS),
            sleep=self._sleep,
            retry_error_callback=_last_result,
        )
        response: httpx.Response = await retrying(self._http.request, method, path, json=body)
        return response

    async def _get(self, path: str) -> Any:
        try:
            response = await self._send("GET", path)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise OutsideFailure(
                f"{self.endpoint} does not answer {path}: {str(error) or type(error).__name__}. "
                "Is the server running, and is the endpoint in quality.yaml right?"
            ) from error

    async def _expect(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post where a refusal is a fact too; ``_status`` holds the HTTP status."""
        try:
            response = await self._send("POST", path, body)
        except httpx.HTTPError as error:
            raise OutsideFailure(f"{self.endpoint} does not answer {path}: {error!r}") from error
        if response.status_code in RETRIED_STATUS:
            raise OutsideFailure(
                f"{self.endpoint} answers {path} with HTTP {response.status_code}, again and again"
            )
        try:
            payload = response.json()
        except ValueError:
            payload = {}
        return {**(payload if isinstance(payload, dict) else {}), "_status": response.status_code}


def _last_result(state: tenacity.RetryCallState) -> Any:
    assert state.outcome is not None  # noqa: S101 - tenacity calls this after an attempt only
    return state.outcome.result()


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
