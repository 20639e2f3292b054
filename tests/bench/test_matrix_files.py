"""Recordings on disk: whole or not at all, the same after reading, and refused when they are something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.matrix.parquet_files import (
    HEAD_COLUMNS,
    ROW_COLUMNS,
    read_checks,
    read_file,
    schema,
    write_checks,
)
from bench.matrix.recording import Row, cases_of
from quality_lib.errors import BadInput
from tests.bench.recordings import check, faulty, made


def test_checks_come_back_as_they_were(tmp_path: Path) -> None:
    checks = [
        made("one", 1, noise=0.1),
        faulty("two", 2),
        check(Row("a", "greedy", problem="HTTP 500"), Row("a", "raw_scored", 1, (1,), (None,)), check_id="three"),
    ]  # fmt: skip
    write_checks(tmp_path / "unit.parquet", checks)
    assert read_file(tmp_path / "unit.parquet") == checks
    assert [file.name for file in tmp_path.iterdir()] == ["unit.parquet"]


def test_log_probabilities_keep_every_bit(tmp_path: Path) -> None:
    value = -1.0000001192092896
    write_checks(tmp_path / "unit.parquet", [check(Row("a", "greedy", 1, (1,), (value,)))])
    assert read_file(tmp_path / "unit.parquet")[0].rows[0].logprobs == (value,)


def test_the_schema_names_every_field() -> None:
    assert schema().names == [*HEAD_COLUMNS, *ROW_COLUMNS]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_checks(tmp_path / f"{name}.parquet", [made(name, 1)])
    (tmp_path / ".c.parquet.12.partial").write_bytes(b"half")
    assert [c.head.check_id for c in read_checks(tmp_path)] == ["a", "b", "c"]


def test_what_is_no_recording_is_refused_by_name(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(BadInput, match="holds no recordings"):
        read_checks(tmp_path)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadInput, match="is no recording"):
        read_checks(tmp_path)
    (tmp_path / "cut.parquet").unlink()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="lacks the columns"):
        read_checks(tmp_path)


def test_a_check_knows_its_rows() -> None:
    one = made("g", 1)
    assert cases_of([one]) == ["a", "b", "c", "d", "e", "x"]
    assert one.tokens == sum(r.tokens_in + r.tokens_out for r in one.rows)
    few = one.limited(["a", "b"])
    assert {row.case_id for row in few.rows} == {"a", "b"}
    refused = check(
        Row("a", "greedy", problem="HTTP 500"), Row("b", "greedy", problem="transport: x")
    )
    assert refused.of("greedy") == []
    assert [row.case_id for row in refused.missing("greedy")] == ["a"]


def test_the_product_sees_its_channels_alone() -> None:
    reading = made("g", 3, load=8).as_reading()
    assert {p.channel for p in reading.probes} == {"greedy", "seeded", "chat_scored", "raw_scored"}
    assert (reading.block.start, reading.block.load) == ("server-3", 8)
