"""A real S3 server for tests: moto's, as its own process on a free loopback port."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.server_process import ServerProcess

KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret-key",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(kw_only=True)
class S3Process(ServerProcess):
    """A server that holds in memory what it holds."""

    name: str = "the S3 server"
    health: str = "/moto-api/"
    log: str = "moto.log"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        return KEYS


def running_s3(folder: Path) -> AbstractContextManager[str]:
    """Run a server and give its address."""
    return S3Process(folder=folder).running()


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
