"""Reading a request's body without taking it from the application behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.serving.asgi import Message, Receive


@dataclass(frozen=True)
class ReadBody:
    """What was received so far."""

    messages: tuple[Message, ...]
    """Exactly as they came, to be given on."""
    body: bytes | None
    """``None``: longer than the limit, or the client went away before its end."""
    is_too_long: bool = False


async def read_body(receive: Receive, limit: int) -> ReadBody:
    """Receive a body of up to ``limit`` bytes; what is longer is left with its rest unread."""
    messages: list[Message] = []
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request":
            return ReadBody(tuple(messages), None)
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            return ReadBody(tuple(messages), None, is_too_long=True)
        parts.append(part)
        if not message.get("more_body", False):
            return ReadBody(tuple(messages), b"".join(parts))


class Replay:
    """A ``receive`` that gives what was read once more, and then what still comes."""

    def __init__(self, messages: tuple[Message, ...], receive: Receive) -> None:
        self._left = list(reversed(messages))
        self._receive = receive

    async def __call__(self) -> Message:
        """Return the next message."""
        if self._left:
            return self._left.pop()
        return await self._receive()


def whole(body: bytes) -> tuple[Message, ...]:
    """Return a body as the one message that carries it."""
    return ({"type": "http.request", "body": body, "more_body": False},)


def object_of(body: bytes | None) -> dict[str, Any] | None:
    """Return the JSON object of a body as vLLM's own parser reads it, else ``None``."""
    if body is None:
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_fields(body: bytes, fields: Mapping[str, Any], whole_object: Mapping[str, Any]) -> bytes:
    """Return the body with fields set.

    They are put at the end of the text as it is, because the last of two equal names counts, so
    that a large body is not written anew and no number in it changes its digits.
    """
    text = body.rstrip(b" \t\r\n")
    if json.detect_encoding(body) not in {"utf-8", "utf-8-sig"} or not text.endswith(b"}"):
        return json.dumps({**whole_object, **fields}).encode()
    comma = b"," if whole_object else b""
    return text[:-1] + comma + json.dumps(fields)[1:].encode()
