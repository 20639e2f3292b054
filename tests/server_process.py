"""A real server for tests as a process of its own: killed, stopped and started again at one address."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from quality_lib.adapters.machine.ports import free_port


@dataclass(kw_only=True)
class ServerProcess:
    """A server over a folder, at the same address however often it is started."""

    folder: Path
    port: int = field(default_factory=free_port)
    name: str = ""
    health: str = "/"
    log: str = "server.log"
    timeout_s: float = 120.0
    _server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        """Return what is started."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return what it needs beside the inherited environment."""
        return {}

    def start(self) -> None:
        """Start it and wait until it answers; one that runs is left alone."""
        if self._server is not None:
            return
        with (self.folder / self.log).open("ab") as log:
            self._server = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **self.environment()},
            )  # fmt: skip
        self._await(self._server)

    def kill(self) -> None:
        """End it as a kill -9 does, with its workers."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it politely, or else not."""
        self._end(signal.SIGTERM)

    @contextmanager
    def running(self) -> Generator[str]:
        """Run it and give its address."""
        try:
            self.start()
            yield self.url
        finally:
            self.stop()

    def _end(self, how: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        # A server may have workers of its own: the whole group goes.
        os.killpg(server.pid, how)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)

    def _await(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline and server.poll() is None:
            try:
                if httpx.get(self.url + self.health, timeout=1).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.2)
        log = (self.folder / self.log).read_text()[-3000:]
        raise RuntimeError(f"{self.name} did not start:\n{log}")
