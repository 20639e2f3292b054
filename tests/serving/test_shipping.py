"""Finished files reach S3 exactly once, whatever fails meanwhile, and nothing secret is told."""

from __future__ import annotations

import gzip
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from quality_lib.adapters.machine.ports import free_port
from quality_lib.adapters.stack.s3_contents import CREDENTIALS
from quality_lib.serving.log_files import LogFolder
from quality_lib.serving.metrics import GuardMetrics
from quality_lib.serving.recording import instance_id, start_recording
from quality_lib.serving.shipping import (
    LONGEST_PAUSE_S,
    S3Place,
    Shipper,
    cause_of,
    s3_upload,
)
from quality_lib.settings import ExchangeLogSettings

LINE = b'{"id":1}\n'
START = 1_800_000_000.0


class Bucket:
    """An S3 in memory that can be told to fail."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts = 0
        self.error: Exception | None = None
        self.refused = ""

    def put(self, key: str, content: bytes) -> None:
        self.puts += 1
        if self.error is not None:
            raise self.error
        if self.refused and self.refused in key:
            raise ClientErrorLike("EntityTooLarge")
        self.objects[key] = content


class ClientErrorLike(Exception):
    """Shaped as botocore's errors are."""

    def __init__(self, code: str) -> None:
        super().__init__(f"An error occurred ({code}) with key AKIAIOSFODNN7EXAMPLE")
        self.response = {"Error": {"Code": code, "Message": "secret"}}


class Told:
    """What the shipper has told."""

    def __init__(self) -> None:
        self.files = self.records = self.size = 0
        self.causes: list[str] = []
        self.waiting = (0, 0.0)

    def shipped(self, files: int, records: int, size: int) -> None:
        self.files += files
        self.records += records
        self.size += size

    def ship_failed(self, cause: str) -> None:
        self.causes.append(cause)

    def waiting_to_ship(self, size: int, oldest_s: float) -> None:
        self.waiting = (size, oldest_s)


class Harbour:
    """A folder with files, a bucket, and a shipper between them."""

    def __init__(self, path: Path) -> None:
        self.now = START
        self.folder = LogFolder(path / "log", "my-chat", "host_1", lambda: self.now)
        self.bucket = Bucket()
        self.told = Told()
        self.shipper = self.another()

    def another(self) -> Shipper:
        return Shipper(self.folder, "logs", self.bucket.put, self.told, jitter=lambda: 1.0)

    def put_files(self, count: int, records: int = 2) -> None:
        for _ in range(count):
            file = self.folder.open_next()
            file.write(LINE * records, records)
            self.folder.finish(file)
            self.now += 60


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    harbour = Harbour(tmp_path)
    yield harbour
    harbour.shipper.close(0.1)


def test_files_are_shipped_and_removed(harbour: Harbour) -> None:
    harbour.put_files(2)
    assert harbour.shipper.ship_once()
    first = "my-chat-host_1-20270115T080000Z-000001-n2.jsonl.gz"
    assert sorted(harbour.bucket.objects)[0] == f"logs/my-chat/dt=2027-01-15/hour=08/{first}"
    assert gzip.decompress(next(iter(harbour.bucket.objects.values()))) == LINE * 2
    assert harbour.folder.finished() == []
    assert (harbour.told.files, harbour.told.records) == (2, 4)
    assert harbour.told.size == sum(map(len, harbour.bucket.objects.values()))


def test_what_is_open_or_of_others_stays(harbour: Harbour) -> None:
    file = harbour.folder.open_next()
    file.write(LINE)
    (harbour.folder.folder / "notes.jsonl").write_text("mine")
    assert harbour.shipper.ship_once()
    assert harbour.bucket.objects == {}
    assert (harbour.folder.folder / "notes.jsonl").exists()
    harbour.folder.finish(file)


def test_without_s3_everything_waits_and_is_shipped_afterwards(harbour: Harbour) -> None:
    harbour.put_files(3)
    harbour.bucket.error = ConnectionError("refused")
    pauses = []
    for _ in range(10):
        assert not harbour.shipper.ship_once()
        pauses.append(harbour.shipper.pause_s())
    assert pauses[:4] == [1, 2, 4, 8]
    assert max(pauses) == LONGEST_PAUSE_S
    assert harbour.told.waiting == (6 * len(LINE), 180.0)
    assert harbour.bucket.puts == 10
    harbour.bucket.error = None
    assert harbour.shipper.ship_once()
    assert len(harbour.bucket.objects) == 3
    assert harbour.told.waiting == (0, 0.0)
    assert harbour.shipper.pause_s() < 5


def test_pauses_are_spread(harbour: Harbour) -> None:
    shipper = Shipper(harbour.folder, "", harbour.bucket.put, harbour.told, jitter=lambda: 0.0)
    harbour.put_files(1)
    harbour.bucket.error = OSError()
    shipper.ship_once()
    assert shipper.pause_s() == 0.5
    shipper.close(0.1)


def test_one_refused_file_does_not_hold_up_the_rest(harbour: Harbour) -> None:
    harbour.put_files(3)
    harbour.bucket.refused = "-000001-"
    assert not harbour.shipper.ship_once()
    assert not harbour.shipper.ship_once()
    assert len(harbour.bucket.objects) == 2
    assert harbour.told.causes == ["EntityTooLarge"] * 2
    assert [file.name.seq for file in harbour.folder.finished()] == [1]


def test_a_crash_after_the_upload_makes_no_second_object(harbour: Harbour) -> None:
    harbour.put_files(1)
    content = harbour.folder.finished()[0].path.read_bytes()
    path = harbour.folder.finished()[0].path
    harbour.shipper.ship_once()
    first = dict(harbour.bucket.objects)
    path.write_bytes(content)  # as if the process had died before it removed the file
    harbour.shipper.ship_once()
    assert harbour.bucket.objects == first
    assert harbour.bucket.puts == 2


def test_one_process_ships_for_all(harbour: Harbour) -> None:
    harbour.put_files(2)
    other = harbour.another()
    assert harbour.shipper.ship_once()
    harbour.put_files(1)
    assert other.ship_once()
    assert len(harbour.bucket.objects) == 2
    harbour.shipper.close(0.1)
    assert other.ship_once()
    assert len(harbour.bucket.objects) == 3
    other.close(0.1)


def test_closing_ships_what_is_left(harbour: Harbour) -> None:
    harbour.shipper.start()
    time.sleep(0.05)
    harbour.put_files(3)
    harbour.shipper.close(20)
    assert len(harbour.bucket.objects) == 3


def test_closing_waits_a_bounded_time_for_a_hung_s3(harbour: Harbour) -> None:
    hung = threading.Event()
    harbour.bucket.put = lambda *_: hung.wait(30)  # type: ignore[method-assign,assignment]
    shipper = harbour.another()
    harbour.put_files(2)
    shipper.start()
    began = time.monotonic()
    shipper.close(0.3)
    assert time.monotonic() - began < 3
    assert len(harbour.folder.finished()) == 2
    hung.set()


def test_nothing_secret_is_told(harbour: Harbour, caplog: pytest.LogCaptureFixture) -> None:
    harbour.put_files(1)
    harbour.bucket.error = ClientErrorLike("InvalidAccessKeyId")
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            harbour.shipper.ship_once()
    assert [record.getMessage() for record in caplog.records] == [
        "exchange logs cannot be shipped (InvalidAccessKeyId); they wait in the folder"
    ]
    assert harbour.told.causes == ["InvalidAccessKeyId"] * 3


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ClientErrorLike("AccessDenied"), "AccessDenied"),
        (ClientErrorLike("https://key:secret@host"), "ClientErrorLike"),
        (TimeoutError("s3.example"), "TimeoutError"),
    ],
)
def test_how_a_failure_is_named(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("s3://bucket/a/b/", S3Place("bucket", "a/b")),
        ("s3://bucket", S3Place("bucket", "")),
    ],
)
def test_addresses(address: str, place: S3Place) -> None:
    assert S3Place.parse(address) == place


def test_no_folder_means_nothing_is_recorded() -> None:
    assert start_recording(ExchangeLogSettings(), "chat", GuardMetrics(CollectorRegistry())) is None


def test_instances_have_names_of_their_own() -> None:
    assert instance_id() != instance_id()


@pytest.mark.stack
def test_on_a_real_s3_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.server import ThreadedMotoServer

    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    settings = ExchangeLogSettings(folder=tmp_path, ship_to="s3://exchanges/logs")
    registry = CollectorRegistry()
    recording = start_recording(settings, "chat", GuardMetrics(registry))
    assert recording is not None
    recording.append({"id": "1", "request": {"prompt": "I am anna@example.com"}})
    recording.close(2)
    assert registry.get_sample_value("vllm_quality_log_shipped_files_total") == 0
    assert len(list(tmp_path.glob("*.jsonl"))) == 1

    server.start()
    try:
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket="exchanges")
        recording = start_recording(settings, "chat", GuardMetrics(CollectorRegistry()))
        assert recording is not None
        recording.close(30)
        keys = [item["Key"] for item in client.list_objects_v2(Bucket="exchanges")["Contents"]]
        body = client.get_object(Bucket="exchanges", Key=keys[0])["Body"].read()
    finally:
        server.stop()
    assert len(keys) == 1
    assert keys[0].startswith("logs/chat/dt=")
    assert b'"I am [email]"' in gzip.decompress(body)
    assert list(tmp_path.glob("*.jsonl*")) == []


def test_no_credentials_are_a_failure_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    harbour = Harbour(tmp_path)
    harbour.put_files(1)
    shipper = Shipper(
        harbour.folder, "", s3_upload(S3Place("bucket", "")), harbour.told, jitter=lambda: 0.0
    )
    assert not shipper.ship_once()
    assert harbour.told.causes == ["NoCredentialsError"]
    shipper.close(0.1)
