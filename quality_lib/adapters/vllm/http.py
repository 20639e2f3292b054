"""HTTP to a vLLM server: marked as our own traffic, lost requests tried again, refusals told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
import tenacity

from quality_lib.adapters.vllm.running_requests import RunningRequests
from quality_lib.errors import OutsideFailure

RETRIED_STATUS = frozenset({408, 429, 502, 503, 504})
"""Answers of a proxy or an overloaded server. A 500 is the engine's own word and is not retried."""

ATTEMPTS = 4

PROBE_HEADER = {"x-quality-probe": "1"}
"""Marks our own traffic, so that log scoring can leave it out."""


class Refused(Exception):
    """The server answered, and its answer was no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:300]}")
        self.status = status


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, (httpx.TransportError, httpx.DecodingError))


class VllmHttp:
    """One endpoint; bounded by the caller, retries transport faults only."""

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float = 120.0,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the parsed answer of a 200.

        Raises:
            Refused: any other status that another try would not change.
            httpx.TransportError: nothing came back, again and again.
        """
        response = await self.send("POST", path, body)
        if response.status_code != httpx.codes.OK:
            if response.status_code in RETRIED_STATUS:
                raise httpx.ReadError(f"HTTP {response.status_code}: {response.text[:200]}")
            raise Refused(response.status_code, response.text)
        return response.json()

    async def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """Send one request, again after a lost one; any status is an answer."""
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

    async def get(self, path: str) -> Any:
        """Return the parsed answer of a GET that must succeed.

        Raises:
            OutsideFailure: it did not.
        """
        try:
            response = await self.send("GET", path)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise OutsideFailure(
                f"{self.endpoint} does not answer {path}: {str(error) or type(error).__name__}. "
                "Is the server running, and is the endpoint in quality.yaml right?"
            ) from error

    async def watch(self, running: RunningRequests) -> None:
        """Let ``running`` look at the server; never fails."""
        await running.look(self._http)

    async def expect(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Post where a refusal is a fact too; ``_status`` holds the HTTP status."""
        try:
            response = await self.send("POST", path, body)
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
