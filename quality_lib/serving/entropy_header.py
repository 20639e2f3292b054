"""Tells whoever probes the server the entropies of an answer, in a response header.

Loaded with ``--middleware quality_lib.serving.entropy_header.EntropyHeader`` beside one of our
logits processors. A probe names its request twice: in the header ``x-quality-id`` and in
``vllm_xargs.quality_id``. An answer that does not stream then carries ``x-quality-entropies``: one
little-endian half float per token, in Base64. Requests without that header pass untouched.
"""

from __future__ import annotations

import base64

import numpy as np

from quality_lib.serving.asgi import ASGIApp, Message, Receive, Scope, Send, header
from quality_lib.serving.entropy_reader import EntropyReader, entropy_reader

PROBE = b"x-quality-probe"
ID = b"x-quality-id"
ENTROPIES = b"x-quality-entropies"
MAX_TOKENS = 4096
"""Longer answers get no header: clients and proxies bound what they take."""


class EntropyHeader:
    """Follow probes that ask for it; pass everything else through."""

    def __init__(self, app: ASGIApp, reader: EntropyReader | None = None) -> None:
        self._app = app
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI event."""
        name = None
        if scope["type"] == "http" and header(scope["headers"], PROBE) is not None:
            name = header(scope["headers"], ID)
        if not name:
            await self._app(scope, receive, send)
            return
        reader = self._reader or entropy_reader()
        quality_id = name.decode("latin-1")
        reader.follow(quality_id)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                values = reader.take(quality_id)
                if 0 < len(values) <= MAX_TOKENS:
                    given = [*message.get("headers", ()), (ENTROPIES, encode(values))]
                    message = {**message, "headers": given}
            await send(message)

        try:
            await self._app(scope, receive, told)
        finally:
            reader.leave(quality_id)


def encode(values: list[float]) -> bytes:
    """Return entropies as header text; half floats are exact to 0.1 %."""
    return base64.b64encode(np.asarray(values, dtype="<f2").tobytes())


def decode(text: str) -> tuple[float, ...]:
    """Return the entropies of a header.

    Raises:
        ValueError: it holds none.
    """
    return tuple(np.frombuffer(base64.b64decode(text, validate=True), dtype="<f2").tolist())
