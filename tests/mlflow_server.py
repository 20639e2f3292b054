"""A real MLflow server for tests: SQLite, artifacts through its proxy, a free loopback port."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


@dataclass(kw_only=True)
class MlflowProcess(ServerProcess):
    """A server whose records outlive it."""

    name: str = "MLflow"
    health: str = "/health"
    log: str = "mlflow.log"
    timeout_s: float = 300.0
    artifacts: str = ""
    """Where files go; empty: the folder too."""
    env: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> Sequence[str]:
        return [
            sys.executable, "-m", "mlflow", "server",
            "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}",
            "--artifacts-destination", self.artifacts or (self.folder / "artifacts").as_uri(),
            "--serve-artifacts",
        ]  # fmt: skip

    def environment(self) -> Mapping[str, str]:
        return {**QUIET, **self.env}


def running_mlflow(folder: Path) -> AbstractContextManager[str]:
    """Run a server over ``folder`` and give its address."""
    return MlflowProcess(folder=folder).running()


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Address of the MLflow server that the session's tests share; use own service names."""
    with running_mlflow(tmp_path_factory.mktemp("mlflow")) as uri:
        yield uri
