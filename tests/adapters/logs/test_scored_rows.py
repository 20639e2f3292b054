"""Judged rows as Parquet, whole or not there, and copied to a folder or to S3."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quality_lib.adapters.logs.scored_rows import BATCH_ROWS, RowWriter, keep_rows
from quality_lib.errors import OutsideFailure
from quality_lib.exchanges.row import Facts
from quality_lib.scoring.worst import ShownRow, shown_row
from tests.scoring.builders import LOW, exchange


def row(number: int, text: str = "fine") -> ShownRow:
    return shown_row(exchange(number, text), Facts(), LOW, "all", "a.jsonl:1", lambda t: t)


def test_more_rows_than_a_batch_are_all_there_in_order(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path / "rows.parquet")
    for number in range(BATCH_ROWS + 7):
        writer.add(row(number), 2.5)
    assert not (tmp_path / "rows.parquet").exists()
    writer.close()
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [r["id"] for r in table] == [f"r{n:04d}" for n in range(BATCH_ROWS + 7)]
    assert table[0]["reasons"] == ["loop_only"]
    assert (table[0]["outcome"], table[0]["weight"]) == ("FAILED", 2.5)


def test_no_rows_are_an_empty_table(tmp_path: Path) -> None:
    RowWriter(tmp_path / "new/rows.parquet").close()
    assert pq.read_table(tmp_path / "new/rows.parquet").num_rows == 0


def test_half_characters_and_zero_bytes_are_storable(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path / "rows.parquet")
    writer.add(row(1, "a\ud83d\x00b"), 1.0)
    writer.close()
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist()[0]["text"] == "a?\x00b"


def test_a_full_disk_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutsideFailure, match="cannot be written"):
        RowWriter(tmp_path / "file/rows.parquet").close()
    with pytest.raises(OutsideFailure, match="does not take"):
        keep_rows([], str(tmp_path / "file"), ["x"])


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    import boto3

    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    yield client
    server.stop()


@pytest.mark.stack
def test_rows_go_to_s3_once_however_often(tmp_path: Path, s3: Any) -> None:
    (tmp_path / "rows-1-of-1.parquet").write_bytes(b"x")
    files = [tmp_path / "rows-1-of-1.parquet"]
    for _ in range(2):
        where = keep_rows(files, "s3://bucket/scores/", ["chat", "quick", "w"])
    assert where == "s3://bucket/scores/chat/quick/w"
    found = s3.list_objects_v2(Bucket="bucket")["Contents"]
    assert [item["Key"] for item in found] == ["scores/chat/quick/w/rows-1-of-1.parquet"]
    with pytest.raises(OutsideFailure, match=r"does not take the rows: NoSuchBucket$"):
        keep_rows(files, "s3://nowhere", ["x"])


def test_an_error_of_the_store_is_told_without_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto's message holds the whole address, which may hold a password."""
    for name, value in {
        "AWS_ENDPOINT_URL": "http://user:hunter2@127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "rows.parquet").write_bytes(b"x")
    with pytest.raises(OutsideFailure, match=r"does not take the rows: [A-Za-z]+$") as told:
        keep_rows([tmp_path / "rows.parquet"], "s3://bucket", ["x"])
    assert "hunter2" not in str(told.value)
