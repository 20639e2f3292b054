"""Requests that carry fixed headers, such as the one that leads past a route's weights."""

from __future__ import annotations

from collections.abc import Mapping

import httpx


class HeaderTransport(httpx.AsyncHTTPTransport):
    """Adds headers to every request."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(trust_env=False)
        self._headers = dict(headers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        request.headers.update(self._headers)
        return await super().handle_async_request(request)
