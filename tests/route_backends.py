"""Tiny real upstream servers for tests of a route, and patience.

A request steers its backend by the header ``x-test``, a JSON object: ``chunks`` and ``pause`` make a
stream, ``break_after`` cuts it after so many chunks, ``hold`` keeps it open until ``release``,
``status`` answers with it, ``close`` drops the connection before any answer.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def until(read: Callable[[], T], is_good: Callable[[T], bool], patience_s: float = PATIENCE_S) -> T:
    """Return what ``read`` gives as soon as it is good, or its last word after a generous time."""
    deadline = time.monotonic() + patience_s
    while True:
        found = read()
        if is_good(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    backend: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    """``time.monotonic()``."""


@dataclass
class Backends:
    """Servers in a thread; ``seen`` holds what reached them, in order."""

    names: tuple[str, ...] = ("a", "b", "c")
    seen: list[Seen] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Backends:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._released = self._run(self._event())
        self._servers: dict[str, asyncio.Server] = {}
        self._open: dict[str, set[asyncio.StreamWriter]] = {name: set() for name in self.names}
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        for name in self.names:
            self.kill(name)
        self._run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def start(self, name: str) -> None:
        """Start a backend, at the address it had before, if any."""
        port = int(self.addresses[name].rpartition(":")[2]) if name in self.addresses else 0
        server = self._run(self._serve(name, port))
        self._servers[name] = server
        self.addresses[name] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def kill(self, name: str) -> None:
        """Drop a backend with all its connections, as a crash would."""
        self._run(self._drop(name))

    def release(self) -> None:
        """Let every held request end."""
        self._loop.call_soon_threadsafe(self._released.set)

    def took(self, name: str) -> int:
        return sum(one.backend == name for one in self.seen)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    @staticmethod
    async def _event() -> asyncio.Event:
        return asyncio.Event()

    async def _cancel_all(self) -> None:
        others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _drop(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server is not None:
            server.close()
        for writer in list(self._open[name]):
            writer.transport.abort()

    async def _serve(self, name: str, port: int) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open[name].add(writer)
            try:
                while await self._answer(name, reader, writer):
                    pass
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                self._open[name].discard(writer)
                writer.close()

        return await asyncio.start_server(connected, "127.0.0.1", port, backlog=1024)

    async def _answer(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(name, method, path, headers, body, time.monotonic()))
        wish = json.loads(headers.get("x-test", "{}"))
        if wish.get("close"):
            writer.transport.abort()
            return False
        status = wish.get("status", 200)
        writer.write(
            f"HTTP/1.1 {status} Whatever\r\ncontent-type: text/event-stream\r\n"
            f"x-backend: {name}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        for number in range(wish.get("chunks", 1)):
            if number == wish.get("break_after"):
                await writer.drain()
                writer.transport.abort()
                return False
            text = f"data: {name} {number} {time.time()}\n\n".encode()
            writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            await writer.drain()
            await asyncio.sleep(wish.get("pause", 0))
        if wish.get("hold"):
            await self._released.wait()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
