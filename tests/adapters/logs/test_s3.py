"""What S3 does wrong, and that no message tells a secret."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ResponseStreamingError,
)

from quality_lib.adapters.logs.local import LocalLogs
from quality_lib.adapters.logs.s3 import S3Logs, s3_client
from quality_lib.adapters.logs.store import log_store, store_at
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.ports import ObjectGone
from quality_lib.settings import GateSettings, LogSettings, ServiceSettings

CONTENT = bytes(range(256)) * 16


class Breaking(io.BytesIO):
    """A download that breaks after some bytes."""

    def __init__(self, content: bytes, after: int | None) -> None:
        super().__init__(content)
        self.after = after

    def read(self, size: int | None = -1) -> bytes:
        if self.after is None:
            return super().read(size)
        if self.tell() >= self.after:
            raise ResponseStreamingError(error="connection lost")
        return super().read(self.after - self.tell())


class Client:
    """S3 as far as a download goes; each call breaks after so many bytes."""

    meta = SimpleNamespace(endpoint_url="http://user:hunter2@s3.example:9000")

    def __init__(self, *breaks: int | None) -> None:
        self.breaks = list(breaks)
        self.asked: list[dict[str, Any]] = []

    def get_object(self, **asked: Any) -> Any:
        self.asked.append(asked)
        start = int(asked.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        return {"ETag": '"tag"', "Body": Breaking(CONTENT[start:], self.breaks.pop(0))}


class Refusing(Client):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def get_object(self, **asked: Any) -> Any:
        raise self.error

    def get_paginator(self, name: str) -> Any:
        def pages(**asked: Any) -> Any:
            raise self.error
            yield {}

        return SimpleNamespace(paginate=pages)


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "key AKIAhunter2"}}, "GetObject")


def test_a_broken_download_goes_on_where_it_stopped() -> None:
    client = Client(1000, 500, None)
    assert b"".join(S3Logs("b", "p", client).blocks("k")) == CONTENT
    assert [a.get("Range") for a in client.asked] == [None, "bytes=1000-", "bytes=1500-"]
    assert client.asked[1]["IfMatch"] == '"tag"'


def test_a_download_that_keeps_breaking_fails() -> None:
    with pytest.raises(OutsideFailure, match="ResponseStreamingError"):
        list(S3Logs("b", "p", Client(10, 10, 10, 10, 10, 10)).blocks("k"))


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (refused("NoSuchKey"), ObjectGone, "not there any more"),
        (refused("AccessDenied"), OutsideFailure, "s3:GetObject"),
        (refused("NoSuchBucket"), OutsideFailure, "logs.source"),
        (refused("SlowDown"), OutsideFailure, "SlowDown"),
        (NoCredentialsError(), OutsideFailure, "AWS_ACCESS_KEY_ID"),
        (EndpointConnectionError(endpoint_url="http://user:hunter2@s3.example:9000"), OutsideFailure, "s3.example:9000"),
        (ConnectionResetError("hunter2"), OutsideFailure, "does not answer"),
    ],
)  # fmt: skip
def test_refusals_are_told_without_secrets(
    error: Exception, kind: type[Exception], says: str
) -> None:
    store = S3Logs("bucket", "logs", Refusing(error))
    with pytest.raises(kind, match=says) as failure:
        list(store.blocks("k.json"))
    assert "hunter2" not in str(failure.value)
    assert "s3://bucket/logs/k.json" in str(failure.value)
    if not isinstance(error, ConnectionResetError):
        with pytest.raises(OutsideFailure) as listed:
            list(store.objects())
        assert "hunter2" not in str(listed.value)


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(OutsideFailure, match=r"127\.0\.0\.1:9 does not answer"):
        list(store_at("s3://bucket/logs").objects())


def test_another_server_is_asked_by_path() -> None:
    client = s3_client({"AWS_ENDPOINT_URL": "http://minio:9000"})
    assert client.meta.endpoint_url == "http://minio:9000"
    assert client.meta.config.s3 == {"addressing_style": "path"}
    assert client.meta.region_name == "us-east-1"


@pytest.mark.parametrize("source", ["s3://", "gs://bucket", "https://bucket"])
def test_other_places_are_refused(source: str) -> None:
    with pytest.raises(BadInput):
        store_at(source)


def test_where_the_log_lies(tmp_path: Path) -> None:
    def service(**more: Any) -> ServiceSettings:
        return ServiceSettings(endpoint="http://h", model="m", weights=tmp_path, **more)

    recorded = GateSettings.model_validate({"log": {"folder": tmp_path, "ship_to": None}})
    shipped = GateSettings.model_validate({"log": {"folder": tmp_path, "ship_to": "s3://b/own"}})
    assert isinstance(log_store(service(gates=recorded)), LocalLogs)
    assert service(gates=shipped).log_source == "s3://b/own"
    assert service(gates=shipped, logs=LogSettings(source="s3://b/gw")).log_source == "s3://b/gw"
    with pytest.raises(BadInput, match=r"logs\.source"):
        log_store(service())
