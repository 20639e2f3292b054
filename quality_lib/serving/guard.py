"""The middleware that judges, watches and records what a vLLM server is asked and answers.

Loaded with vLLM's own ``--middleware quality_lib.serving.guard.Guard``. It looks at
``POST /v1/chat/completions`` and ``POST /v1/completions`` and hands everything else through
untouched; ``docs/guard.md`` tells what a client sees of it. A failure of its own never becomes an
error of the server: the request goes through, unjudged and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from quality_lib.errors import QualityError
from quality_lib.serving.api_key import is_let_in
from quality_lib.serving.asgi import ASGIApp, Message, Receive, Scope, Send, media_type, path_of
from quality_lib.serving.asked import PATHS
from quality_lib.serving.guard_parts import GuardParts
from quality_lib.serving.guard_setup import GuardSetup, read_setup
from quality_lib.serving.guarded_request import GuardedRequest

ENDED = frozenset({"lifespan.shutdown.complete", "lifespan.shutdown.failed"})


class Guard:
    """Guard the two generating paths of an OpenAI-compatible server.

    Without ``parts`` they are made from the environment (``QUALITY_CONFIG``, ``QUALITY_SERVICE``).
    A configuration that cannot be used stops the server while it starts.
    """

    def __init__(self, app: ASGIApp, parts: GuardParts | None = None) -> None:
        self._app = app
        self._parts = parts
        self._setup: GuardSetup | None = None
        self._problem: QualityError | None = None
        if parts is None:
            try:
                self._setup = read_setup()
            except QualityError as error:
                # Raised here it would be taken for a server without a start-up protocol, and
                # every request would fail; it is told when the server asks whether it may start.
                self._problem = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._guards(scope):
            parts = self._made_parts(scope)
            await GuardedRequest(self._app, parts, scope, receive, send).serve()
        else:
            await self._app(scope, receive, send)

    def _made_parts(self, scope: Scope) -> GuardParts:
        if self._parts is None:
            if self._setup is None:
                raise self._problem or AssertionError
            self._parts = self._setup.parts(getattr(scope.get("app"), "state", None))
        return self._parts

    def _guards(self, scope: Scope) -> bool:
        return (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and path_of(scope) in PATHS
            and media_type(scope.get("headers", ())) == "application/json"
            # Others get vLLM's own refusal, and are no traffic of the service.
            and is_let_in(scope, self._env)
        )

    @property
    def _env(self) -> Mapping[str, str]:
        holder = self._parts or self._setup
        return {} if holder is None else holder.env

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._problem is not None:
            await receive()
            message = f"The quality guard cannot start: {self._problem}"
            await send({"type": "lifespan.startup.failed", "message": message})
            return
        # Before the first request: reading a tokenizer while a request uses it can fail that request.
        parts = self._made_parts(scope)
        is_closed = False

        async def close() -> None:
            nonlocal is_closed
            if not is_closed:
                is_closed = True
                # It waits for threads: a bounded time, see ``GuardParts.close``.
                await asyncio.to_thread(parts.close)

        async def close_and_send(message: Message) -> None:
            if message["type"] in ENDED:
                # After this message the server may end at any moment.
                await close()
            await send(message)

        try:
            await self._app(scope, receive, close_and_send)
        finally:
            await close()
