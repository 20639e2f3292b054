"""A real MLflow server for tests: SQLite, artifacts through its proxy, a free loopback port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

START_TIMEOUT_S = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class MlflowProcess:
    """A server over a folder, at the same address however often it is started."""

    folder: Path
    artifacts: str = ""
    """Where files go; empty: the folder too."""
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _server: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; one that runs is left alone."""
        if self._server is not None:
            return
        quiet = {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "1",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        with (self.folder / "mlflow.log").open("ab") as log:
            self._server = subprocess.Popen(
                [
                    sys.executable, "-m", "mlflow", "server",
                    "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                    "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}",
                    "--artifacts-destination", self.artifacts or (self.folder / "artifacts").as_uri(),
                    "--serve-artifacts",
                ],
                cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **quiet, **self.env},
            )  # fmt: skip
        _await(self.uri, self._server, self.folder / "mlflow.log")

    def kill(self) -> None:
        """End it as a kill -9 does, with its workers."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it politely, or else not."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        # The server has workers of its own: the whole group goes.
        os.killpg(server.pid, how)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)


@contextmanager
def running_mlflow(folder: Path) -> Generator[str]:
    """Run a server over ``folder`` and give its address."""
    server = MlflowProcess(folder)
    try:
        server.start()
        yield server.uri
    finally:
        server.stop()


def _await(uri: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if httpx.get(f"{uri}/health", timeout=1).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise RuntimeError(f"MLflow did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Address of the MLflow server that the session's tests share; use own service names."""
    with running_mlflow(tmp_path_factory.mktemp("mlflow")) as uri:
        yield uri
