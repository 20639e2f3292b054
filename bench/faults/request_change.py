"""Faults between client and engine: parameters and context that somebody on the way has altered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.faults.fault import Shim, Target, Undo, Where
from quality_lib.errors import BadInput

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class Parameters:
    """Sampling fields overridden on their way."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    is_for_greedy: bool = False
    """Whether greedy requests are altered too; otherwise those alone that ask for sampling."""

    @property
    def places(self) -> tuple[Where, ...]:
        """In the proxy."""
        return (Where.REQUESTS,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Override the fields of every request that generates."""

        def rewrite(path: str, body: dict[str, Any]) -> dict[str, Any]:
            is_sampled = body.get("temperature", 1.0) > 0
            is_altered = path in {CHAT, COMPLETIONS} and (is_sampled or self.is_for_greedy)
            return {**body, **self.fields} if is_altered else body

        return _put(target.shim, rewrite)


@dataclass(frozen=True)
class Truncation:
    """Context cut from what the caller sent."""

    part: str
    """``head``, ``tail`` or ``middle``."""
    share: float
    """Of the words of the last user message, or of the ids of a prompt."""
    at_least: int = 1

    @property
    def places(self) -> tuple[Where, ...]:
        """In the proxy."""
        return (Where.REQUESTS,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Cut every prompt."""

        def rewrite(path: str, body: dict[str, Any]) -> dict[str, Any]:
            if path == CHAT:
                return {**body, "messages": self._cut_messages(body["messages"])}
            return body

        return _put(target.shim, rewrite)

    def _cut_messages(self, messages: list[Any]) -> list[Any]:
        told = [dict(message) for message in messages]
        users = [m for m in told if m.get("role") == "user" and isinstance(m.get("content"), str)]
        if users:
            users[-1]["content"] = " ".join(self.cut(users[-1]["content"].split(" ")))
        return told

    def cut(self, parts: list[Any]) -> list[Any]:
        """Return what is left; at least one piece stays."""
        count = min(len(parts) - 1, max(self.at_least, int(len(parts) * self.share)))
        if count <= 0:
            return parts
        if self.part == "head":
            return parts[count:]
        if self.part == "tail":
            return parts[:-count]
        if self.part == "middle":
            start = (len(parts) - count) // 2
            return parts[:start] + parts[start + count :]
        raise BadInput(f"there is no part '{self.part}' to cut")


@dataclass(frozen=True)
class Dropped:
    """The first so many requests never arrive, however often they are sent again: a control."""

    count: int = 1

    @property
    def places(self) -> tuple[Where, ...]:
        """In the proxy."""
        return (Where.REQUESTS,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Lose them."""
        lost: list[str] = []

        def rewrite(path: str, body: dict[str, Any]) -> dict[str, Any] | None:
            told = json.dumps(body, sort_keys=True)
            if told in lost:
                return None
            if len(lost) < self.count and path in {CHAT, COMPLETIONS}:
                lost.append(told)
                return None
            return body

        return _put(target.shim, rewrite)


class ShimTransport(httpx.AsyncBaseTransport):
    """The proxy: passes each body through a shim before it goes on."""

    def __init__(self, shim: Shim, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._shim = shim
        self._inner = inner or httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=None))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request on, rewritten.

        Raises:
            httpx.ReadError: the shim drops it.
        """
        if request.method != "POST" or not self._shim.rewrites:
            return await self._inner.handle_async_request(request)
        body = self._shim.rewritten(request.url.path, json.loads(await request.aread()))
        if body is None:
            raise httpx.ReadError("dropped on the way", request=request)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in {"content-length", "transfer-encoding"}
        }
        passed = httpx.Request(
            request.method, request.url, headers=headers, json=body, extensions=request.extensions
        )
        return await self._inner.handle_async_request(passed)

    async def aclose(self) -> None:
        """Close what is behind."""
        await self._inner.aclose()


def _put(shim: Shim | None, rewrite: Any) -> Undo:
    assert shim is not None
    shim.rewrites.append(rewrite)
    return lambda: shim.rewrites.remove(rewrite)
