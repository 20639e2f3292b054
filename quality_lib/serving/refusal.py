"""A refusal in the shape in which OpenAI's API, and vLLM, tell errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from quality_lib.serving.asgi import Header, Send


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let through."""

    message: str
    code: str
    """The gate's reason code."""
    param: str | None = None
    """The field that must change."""


async def send_refusal(refusal: Refusal, headers: Sequence[Header], send: Send) -> None:
    """Answer 400."""
    error = {
        "message": refusal.message,
        "type": "invalid_request_error",
        "param": refusal.param,
        "code": refusal.code,
    }
    payload = json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")
    await send({
        "type": "http.response.start",
        "status": 400,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(payload)).encode()),
            *headers,
        ],
    })
    await send({"type": "http.response.body", "body": payload})
