"""The contract of ``LogStore`` on both that we have."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.logs.local import LocalLogs
from quality_lib.adapters.logs.s3 import S3Logs
from quality_lib.exchanges.ports import LogStore
from tests.contracts.log_store import LogStoreContract, Put
from tests.s3_server import s3, s3_url

__all__ = ["s3", "s3_url"]


class TestFolder(LogStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LogStore:
        return LocalLogs(tmp_path)

    @pytest.fixture
    def put(self, tmp_path: Path) -> Put:
        def write(key: str, content: bytes) -> None:
            path = tmp_path / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        return write


@pytest.mark.stack
class TestS3(LogStoreContract):
    @pytest.fixture
    def bucket(self, s3: Any) -> str:
        name = f"logs-{uuid.uuid4().hex[:12]}"
        s3.create_bucket(Bucket=name)
        # Another log in the same bucket, whose name begins alike.
        s3.put_object(Bucket=name, Key="gateway-old/2026-11-29/x.json", Body=b"{}")
        return name

    @pytest.fixture
    def store(self, bucket: str) -> LogStore:
        return S3Logs(bucket, "gateway")

    @pytest.fixture
    def put(self, s3: Any, bucket: str) -> Put:
        def write(key: str, content: bytes) -> None:
            s3.put_object(Bucket=bucket, Key=f"gateway/{key}", Body=content)

        return write
