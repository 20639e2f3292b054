"""What the guard costs per streamed chunk at the rate of a busy GPU server, and what memory a stream takes.

    python -m bench.guard_stream [--streams 500] [--chunks 200] [--rounds 3] [--long 120000] [--out FILE]

A stand-in for vLLM sends chunks in 500 streams at once, as fast as it can, in process, with and without the guard in
front of it; the difference of processor time is the guard's. Every arm runs in a process of its own. Memory is that
at the moment when every stream has sent its last chunk and none has ended. One more run sends ``--long`` chunks in
four streams and looks at the memory along the way.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from bench.gate_throughput import records
from bench.measures import machine, resident_mib

LIMIT_US = 25.0
MIN_RATE = 20_000
MAX_STREAM_KIB = 512.0
"""Where text and ids of a long answer are capped, and what parsing leaves behind."""
LONG_STREAMS = 4
PIECE = 4
"""Characters of a chunk: about one token."""
SERVICE = "chat"

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Upstream:
    """Answers like vLLM's chat endpoint with ``stream: true``."""

    def __init__(self, streams: int, chunks: int) -> None:
        self.chunks = chunks
        self.waiting = 0
        self.all_sent = asyncio.Event()
        self.may_end = asyncio.Event()
        self._streams = streams
        self._answers = records(3)
        self._started = 0
        self.sent = 0

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
        asked = json.loads(body)
        number = self._started
        self._started += 1
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        before, after = self._frame(number, asked)
        await self._send(send, before + b'{"role":"assistant","content":""}' + after)
        text, place = str(next(self._answers)["text"]), 0
        for _ in range(self.chunks):
            piece = text[place : place + PIECE]
            place += PIECE
            if place >= len(text):
                text, place = str(next(self._answers)["text"]), 0
            self.sent += 1
            await self._send(send, before + json.dumps({"content": piece}).encode() + after)
            await asyncio.sleep(0)
        self.waiting += 1
        if self.waiting == self._streams:
            self.all_sent.set()
        await self.may_end.wait()
        await self._send(send, before + b"{}" + after.replace(b"null}]", b'"stop"}]'))
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    @staticmethod
    async def _send(send: Any, body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": True})

    @staticmethod
    def _frame(number: int, asked: dict[str, Any]) -> tuple[bytes, bytes]:
        """Return what stands around the delta; log-probabilities and ids where they were asked for."""
        name = f"chatcmpl-{number:032x}"
        token = b'{"token":" the","logprob":-0.25,"bytes":[32,116,104,101],"top_logprobs":[]}'
        logprobs = b'{"content":[%b]}' % token if asked.get("logprobs") else b"null"
        ids = b',"token_ids":[260]' if asked.get("return_token_ids") else b""
        return (
            f'data: {{"id":"{name}","object":"chat.completion.chunk","created":1800000000,'
            f'"model":"{SERVICE}","choices":[{{"index":0,"delta":'.encode(),
            b',"logprobs":%b%b,"finish_reason":null}]}\n\n' % (logprobs, ids),
        )


async def client(app: App, number: int) -> int:
    """Send one request and read its stream; return the bytes."""
    body = json.dumps({
        "model": SERVICE,
        "messages": [{"role": "user", "content": f"Question {number}: tell me about it."}],
        "stream": True,
        "temperature": 0.7,
        "max_tokens": 4096,
    }).encode()
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions",
        "root_path": "", "query_string": b"", "server": ("127.0.0.1", 8000), "state": {},
        "client": ("127.0.0.1", 40000),
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())],
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()
    size = 0

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:  # noqa: RUF029  ASGI asks for it
        nonlocal size
        size += len(message.get("body", b""))

    await app(scope, receive, send)
    gone.set()
    return size


async def arm(app: App, upstream: Upstream, streams: int, marks: list[float]) -> dict[str, Any]:
    began_cpu, began = time.process_time(), time.perf_counter()
    clients = [asyncio.create_task(client(app, number)) for number in range(streams)]
    watch = asyncio.create_task(_watch(upstream, streams, marks))
    await upstream.all_sent.wait()
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    watch.cancel()
    gc.collect()
    held = resident_mib()
    upstream.may_end.set()
    sizes = await asyncio.gather(*clients)
    return {
        "cpu_s": cpu,
        "wall_s": wall,
        "chunks": upstream.sent,
        "held_mib": held,
        "bytes": sum(sizes),
    }


async def _watch(upstream: Upstream, streams: int, marks: list[float]) -> None:
    """Note the memory at every eighth of the way."""
    whole = streams * upstream.chunks
    while True:
        if upstream.sent >= whole * (len(marks) + 1) / 8:
            marks.append(round(resident_mib(), 1))
        await asyncio.sleep(0.05)


def run_arm(name: str, streams: int, chunks: int) -> dict[str, Any]:
    """Run one arm in this process."""

    async def run() -> dict[str, Any]:
        upstream = Upstream(streams, chunks)
        app: App = upstream
        if name == "guarded":
            from quality_lib.serving.guard import Guard

            app = Guard(upstream)
        await client_warm_up(name)
        marks: list[float] = []
        before = resident_mib()
        found = await arm(app, upstream, streams, marks)
        began = time.process_time()
        close = getattr(getattr(app, "_parts", None), "close", None)
        if close is not None:
            await asyncio.to_thread(close)
        return {
            **found,
            "before_mib": before,
            "judging_cpu_s": time.process_time() - began,
            "marks_mib": marks,
        }

    return asyncio.run(run())


async def client_warm_up(name: str) -> None:
    """Load what is loaded at the first request, outside the measurement."""
    upstream = Upstream(1, 20)
    upstream.may_end.set()
    app: App = upstream
    if name == "guarded":
        from quality_lib.serving.guard import Guard

        app = Guard(upstream)
    await client(app, 0)
    close = getattr(getattr(app, "_parts", None), "close", None)
    if close is not None:
        await asyncio.to_thread(close)


def child(name: str, streams: int, chunks: int, folder: Path) -> dict[str, Any]:
    """Run one arm in a process of its own, everything on and observing."""
    config = folder / "quality.yaml"
    config.write_text(
        f"services:\n  {SERVICE}:\n    endpoint: http://127.0.0.1:8000\n    model: {SERVICE}\n"
        f"    weights: {folder}\n    gates:\n      log:\n        folder: {folder / 'log'}\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "bench.guard_stream", "--arm", name,
         "--streams", str(streams), "--chunks", str(chunks)],
        env={**os.environ, "QUALITY_CONFIG": str(config), "QUALITY_SERVICE": SERVICE},
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the arm {name} failed:\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {streams} streams, {chunks} chunks each: {found}", file=sys.stderr, flush=True)
    return found


def measured(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    costs: list[float] = []
    rates: list[tuple[float, float]] = []
    kib: list[float] = []
    judging: list[float] = []
    for number in range(args.rounds):
        # The arm that runs second must not be the same one each time.
        order = ("plain", "guarded") if number % 2 == 0 else ("guarded", "plain")
        arms = {name: child(name, args.streams, args.chunks, folder) for name in order}
        plain, guarded = arms["plain"], arms["guarded"]
        costs.append((guarded["cpu_s"] - plain["cpu_s"]) / guarded["chunks"] * 1e6)
        rates.append((plain["chunks"] / plain["wall_s"], guarded["chunks"] / guarded["wall_s"]))
        grown = [(f["held_mib"] - f["before_mib"]) * 1024 / args.streams for f in (guarded, plain)]
        kib.append(grown[0] - grown[1])
        judging.append((guarded["judging_cpu_s"] - plain["judging_cpu_s"]) / args.streams * 1e6)
    result: dict[str, Any] = {
        **machine(),
        "streams": args.streams,
        "chunks_per_stream": args.chunks,
        "rounds": args.rounds,
        "us_per_chunk": round(statistics.median(costs), 2),
        "us_per_chunk_of_rounds": [round(c, 2) for c in costs],
        "limit_us": LIMIT_US,
        "chunks_per_s_plain": round(statistics.median(r[0] for r in rates)),
        "chunks_per_s_guarded": round(statistics.median(r[1] for r in rates)),
        "kib_per_stream": round(statistics.median(kib), 1),
        "judging_us_per_answer": round(statistics.median(judging), 1),
    }
    if args.long:
        found = child("guarded", LONG_STREAMS, args.long, folder)
        result["long"] = {
            "streams": LONG_STREAMS,
            "chunks_per_stream": args.long,
            "characters_per_stream": args.long * PIECE,
            "before_mib": round(found["before_mib"], 1),
            "mib_by_eighths": found["marks_mib"],
            "growth_of_last_half_mib": round(found["marks_mib"][-1] - found["marks_mib"][3], 1),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--long", type=int, default=120_000, help="chunks of the long streams; 0: none"
    )
    parser.add_argument("--arm", choices=("plain", "guarded"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    if args.arm:
        print(json.dumps(run_arm(args.arm, args.streams, args.chunks)))
        return
    with tempfile.TemporaryDirectory() as folder:
        result = measured(args, Path(folder))
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    is_met = (
        result["us_per_chunk"] <= LIMIT_US
        and result["chunks_per_s_plain"] >= MIN_RATE
        and result["kib_per_stream"] <= MAX_STREAM_KIB
    )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
