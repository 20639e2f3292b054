"""A real S3 server for tests: moto's, as its own process on a free loopback port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mlflow_server import free_port

START_TIMEOUT_S = 120.0
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass
class S3Process:
    """A server at the same address however often it is started; what it holds, it holds in memory."""

    folder: Path
    port: int = field(default_factory=free_port)
    _server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; one that runs is left alone."""
        if self._server is not None:
            return
        with (self.folder / "moto.log").open("ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                cwd=self.folder, stdout=log, stderr=log, env=os.environ | KEYS,
            )  # fmt: skip
        _await(self.url, self._server, self.folder / "moto.log")

    def kill(self) -> None:
        """End it as a kill -9 does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it politely."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.send_signal(how)
            server.wait(10)


@contextmanager
def running_s3(folder: Path) -> Generator[str]:
    """Run a server and give its address."""
    server = S3Process(folder)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{url}/moto-api/", timeout=1).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise RuntimeError(f"the S3 server did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Address of the S3 server that the session's tests share; use own bucket names."""
    with running_s3(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture
def s3(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of that server, after the environment was turned to it."""
    import boto3

    for name, value in {**KEYS, "AWS_ENDPOINT_URL": s3_url}.items():
        monkeypatch.setenv(name, value)
    return boto3.client("s3", endpoint_url=s3_url)
