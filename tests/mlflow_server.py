"""A real MLflow server for tests: SQLite, artifacts through its proxy, a free loopback port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

START_TIMEOUT_S = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_mlflow(folder: Path) -> Generator[str]:
    """Run a server over ``folder`` and give its address."""
    port = free_port()
    log = (folder / "mlflow.log").open("wb")
    server = subprocess.Popen(
        [
            sys.executable, "-m", "mlflow", "server",
            "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}",
            "--artifacts-destination", (folder / "artifacts").as_uri(), "--serve-artifacts",
        ],
        cwd=folder, stdout=log, stderr=log, start_new_session=True,
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
    )  # fmt: skip
    try:
        uri = f"http://127.0.0.1:{port}"
        _await(uri, server, folder / "mlflow.log")
        yield uri
    finally:
        # The server has workers of its own: the whole group goes.
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)
        log.close()


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
