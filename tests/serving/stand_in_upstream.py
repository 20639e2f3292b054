"""An application that answers like vLLM's OpenAI server, as fast as one wants and as odd as one wants.

Its JSON is written as vLLM 0.32 writes it: chunks leave unset fields out, whole answers write them
as null, and both write what was not asked for as null.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from quality_lib.serving.asgi import Receive, Scope, Send

WORDS = ("The", " answer", " is", " forty", "-two", ".")


@dataclass
class StandIn:
    """Answer ``words`` to every request; what was asked can be looked at afterwards."""

    words: Sequence[str] = WORDS
    raw: Iterable[bytes] | None = None
    """Sent as the body instead of an answer."""
    raw_type: str = "text/event-stream"
    raw_headers: Sequence[tuple[bytes, bytes]] = ()
    status: int = 200
    held_back: frozenset[int] = frozenset()
    """Positions of words that a parser swallows: their chunks come only when they carry tokens."""
    refuses: frozenset[str] = frozenset()
    """Fields that are answered with 400."""
    pause_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    cut_off_at: int | None = None
    """How many chunks were sent when the client was found gone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = await self._body(receive)
        self.bodies.append(body)
        self.headers.append({k.decode(): v.decode("latin-1") for k, v in scope["headers"]})
        if self.raw is not None:
            await self._send(send, self.raw, self.raw_type, more=self.raw_headers)
            return
        try:
            asked = json.loads(body)
        except ValueError:
            await self._send_json(send, 400, error("the body is no JSON", "BadRequestError"))
            return
        self.requests.append(asked)
        if self.refuses & asked.keys():
            await self._send_json(send, 400, error(f"no {min(self.refuses)}", "BadRequestError"))
            return
        request_id = self.headers[-1].get("x-request-id", "made-by-the-server")
        answer = Answering(self, asked, scope["path"].endswith("/chat/completions"), request_id)
        scope.setdefault("state", {})["request_metadata"] = SimpleNamespace(
            final_usage_info=SimpleNamespace(**answer.usage())
        )
        if asked.get("stream"):
            await self._stream(send, receive, answer)
        else:
            await self._send_json(send, self.status, answer.whole())

    async def _body(self, receive: Receive) -> bytes:
        parts = b""
        while True:
            message = await receive()
            parts += message.get("body", b"")
            if not message.get("more_body"):
                return parts

    async def _stream(self, send: Send, receive: Receive, answer: Answering) -> None:
        """As Starlette's StreamingResponse: one task sends, the other waits for a disconnect."""
        sending = asyncio.ensure_future(self._send_stream(send, answer))
        leaving = asyncio.ensure_future(self._wait_gone(receive))
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.done() and not sending.cancelled() and sending.exception():
            raise sending.exception()  # type: ignore[misc]

    async def _send_stream(self, send: Send, answer: Answering) -> None:
        await send(_start(200, "text/event-stream; charset=utf-8"))
        for number, chunk in enumerate(answer.chunks()):
            self.cut_off_at = number
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(self.pause_s)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.cut_off_at = None

    async def _wait_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _send(
        self,
        send: Send,
        chunks: Iterable[bytes],
        kind: str,
        status: int | None = None,
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        start = _start(self.status if status is None else status, kind)
        start["headers"] += more
        await send(start)
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_json(self, send: Send, status: int, value: Any) -> None:
        body = compact(value)
        start = _start(status, "application/json")
        start["headers"].append((b"content-length", str(len(body)).encode()))
        await send(start)
        await send({"type": "http.response.body", "body": body, "more_body": False})


@dataclass
class Answering:
    """One answer."""

    stand_in: StandIn
    asked: dict[str, Any]
    is_chat: bool
    request_id: str

    @property
    def indexes(self) -> range:
        prompt = self.asked.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and isinstance(prompt[0], str) else 1
        return range((self.asked.get("n") or 1) * prompts)

    def usage(self) -> dict[str, int]:
        tokens = len(self.stand_in.words) * len(self.indexes)
        return {"prompt_tokens": 7, "total_tokens": 7 + tokens, "completion_tokens": tokens}

    def whole(self) -> dict[str, Any]:
        words = self.stand_in.words
        choices = []
        for index in self.indexes:
            ids = list(range(len(words))) if self.asked.get("return_token_ids") else None
            choice: dict[str, Any] = {"index": index}
            if self.is_chat:
                choice["message"] = {"role": "assistant", "content": "".join(words)}
            else:
                choice["text"] = "".join(words)
            choice |= {"logprobs": self._logprobs(words), "finish_reason": "stop"}
            choice |= {"stop_reason": None, "token_ids": ids}
            if not self.is_chat:
                choice["prompt_token_ids"] = self._prompt_ids()
            choices.append(choice)
        top = self._top(choices, whole=True) | {"usage": self.usage()}
        return top | ({"prompt_token_ids": self._prompt_ids()} if self.is_chat else {})

    def chunks(self) -> Iterable[bytes]:
        if self.is_chat:
            for index in self.indexes:
                first = {"role": "assistant", "content": ""}
                choice = {"index": index, "delta": first, "logprobs": None, "finish_reason": None}
                top = self._top([choice]) | self._running(0)
                yield event(top | {"prompt_token_ids": self._prompt_ids()})
        words = self.stand_in.words
        for number, word in enumerate(words):
            for index in self.indexes:
                chunk = self._chunk(index, number, word, is_last=number == len(words) - 1)
                if chunk is not None:
                    yield event(self._top([chunk]) | self._running(number + 1))
        options = self.asked.get("stream_options") or {}
        if options.get("include_usage"):
            yield event(self._top([]) | {"usage": self.usage()})
        yield b"data: [DONE]\n\n"

    def _running(self, tokens: int) -> dict[str, Any]:
        options = self.asked.get("stream_options") or {}
        if not (options.get("include_usage") and options.get("continuous_usage_stats")):
            return {}
        counts = {"prompt_tokens": 7, "total_tokens": 7 + tokens, "completion_tokens": tokens}
        return {"usage": counts}

    def _chunk(self, index: int, number: int, word: str, *, is_last: bool) -> dict[str, Any] | None:
        ids = [number] if self.asked.get("return_token_ids") else None
        logprobs = self._logprobs([word])
        said: dict[str, Any] = {"content": word}
        if self.is_chat and number in self.stand_in.held_back:
            if ids is None and logprobs is None and not is_last:
                return None
            said = {}
        choice: dict[str, Any] = {"index": index}
        choice |= {"delta": said} if self.is_chat else {"text": word}
        choice |= {"logprobs": logprobs, "finish_reason": "stop" if is_last else None}
        if is_last or not self.is_chat:
            choice["stop_reason"] = None
        if not self.is_chat:
            choice["prompt_token_ids"] = self._prompt_ids() if number == 0 else None
        return choice | {"token_ids": ids}

    def _prompt_ids(self) -> list[int] | None:
        return [1, 2, 3] if self.asked.get("return_token_ids") else None

    def _logprobs(self, words: Sequence[str]) -> dict[str, Any] | None:
        wanted = self.asked.get("logprobs")
        if self.is_chat and wanted:
            return {
                "content": [
                    {"token": w, "logprob": -0.25, "bytes": list(w.encode()), "top_logprobs": []}
                    for w in words
                ]
            }
        if not self.is_chat and wanted is not None:
            return {
                "text_offset": [0] * len(words),
                "token_logprobs": [-0.25] * len(words),
                "tokens": list(words),
                # A token that looks like one of our fields.
                "top_logprobs": [{"token_ids": -0.25} for _ in words],
            }
        return None

    def _top(self, choices: list[Any], *, whole: bool = False) -> dict[str, Any]:
        kind = "chat.completion" if self.is_chat else "text_completion"
        kind += ".chunk" if self.is_chat and not whole else ""
        return {
            "id": f"x-{self.request_id}",
            "object": kind,
            "created": 1,
            "choices": choices,
            "model": "chat",
        }


def error(message: str, kind: str) -> dict[str, Any]:
    """vLLM's shape of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": 400}}


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: Any) -> bytes:
    return b"data: " + compact(value) + b"\n\n"


def _start(status: int, kind: str) -> dict[str, Any]:
    headers = [(b"content-type", kind.encode())]
    return {"type": "http.response.start", "status": status, "headers": headers}
