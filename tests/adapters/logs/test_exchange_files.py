from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.logs import exchange_files
from quality_lib.adapters.logs.exchange_files import BadLine, read_exchanges
from quality_lib.errors import BadInput
from quality_lib.exchanges.exchange import Exchange

RECORDS = [{"id": f"r{n}", "prompt": "Hi", "text": f"größer\n{n}"} for n in range(5)]
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS).encode()


def ids(path: Path | str) -> list[str]:
    return [
        f"bad {found.line}" if isinstance(found, BadLine) else found.id
        for found in read_exchanges(path)
    ]


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


ALL = ["r0", "r1", "r2", "r3", "r4"]


@pytest.mark.parametrize(
    "data",
    [
        LINES,
        LINES.rstrip(),
        b"\xef\xbb\xbf" + LINES,
        LINES.replace(b"\n", b"\r\n"),
        LINES.replace(b"\n", b"\n\n  \n"),
        json.dumps(RECORDS).encode(),
        json.dumps(RECORDS, indent=2).encode(),
        b"\n\n" + json.dumps(RECORDS).encode(),
        "\n".join(json.dumps(record, indent=1) for record in RECORDS).encode(),
        gzip.compress(LINES),
        gzip.compress(LINES[:100]) + gzip.compress(LINES[100:]),
        gzip.compress(json.dumps(RECORDS).encode()),
    ],
    ids=[
        "lines", "no last line end", "byte order mark", "carriage returns", "blank lines", "array",
        "pretty array", "array after blank lines", "pretty objects", "gzip", "gzip of two members",
        "gzip of an array",
    ],
)  # fmt: skip
def test_every_layout_gives_the_same_exchanges(tmp_path: Path, data: bytes) -> None:
    found = list(read_exchanges(written(tmp_path, "log", data)))
    assert [e.id for e in found if isinstance(e, Exchange)] == ALL
    assert all(
        isinstance(e, Exchange) and e.answer and "größer" in str(e.answer.text) for e in found
    )


def test_parquet_with_nested_and_packed_fields(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [
        {
            "id": "a",
            "messages": json.dumps([{"role": "user", "content": "Hi"}]),
            "text": "Hello",
            "params": {"temperature": 0.7, "top_p": None},
            "usage": {"prompt_tokens": 3, "completion_tokens": None},
        },
        {"id": "b", "messages": None, "text": "x", "params": None, "usage": None},
        {"id": "c", "messages": None, "text": None, "params": None, "usage": None},
    ]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    first, second, third = read_exchanges(path)
    assert isinstance(first, Exchange)
    assert first.messages == ({"role": "user", "content": "Hi"},)
    assert (first.params["temperature"], first.prompt_tokens) == (0.7, 3)
    assert isinstance(second, Exchange)
    assert isinstance(third, BadLine)
    assert (third.line, third.id) == (3, "c")


BAD = [b"not json", b'{"id": "x", "prompt": 5}', b'{"prompt": "\xff"}', b"[1]", b"5", b'{"prompt": "cut', b'{"a":' * 9999]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[:20].decode(errors="replace"))
def test_a_bad_line_is_told_and_the_others_are_read(tmp_path: Path, bad: bytes) -> None:
    first, rest = LINES.split(b"\n", 1)
    path = written(tmp_path, "log.jsonl", first + b"\n" + bad + b"\n" + rest)
    assert ids(path) == ["r0", "bad 2", "r1", "r2", "r3", "r4"]
    error = next(found.error for found in read_exchanges(path) if isinstance(found, BadLine))
    assert str(error).startswith(f"{path}:2: ")
    assert error.fix


def test_bad_lines_at_the_start_do_not_change_the_layout(tmp_path: Path) -> None:
    path = written(tmp_path, "log.jsonl", b"{broken\noops\n" + LINES)
    assert ids(path) == ["bad 1", "bad 2", *ALL]


def test_the_id_of_a_bad_record_is_kept(tmp_path: Path) -> None:
    (bad,) = read_exchanges(written(tmp_path, "log.jsonl", b'{"id": "r7", "prompt": 5}'))
    assert isinstance(bad, BadLine)
    assert (bad.id, bad.error.field) == ("r7", "prompt")


def test_a_bad_record_of_an_array_costs_itself_only(tmp_path: Path) -> None:
    records = [RECORDS[0], {"id": "x", "prompt": 5}, RECORDS[1]]
    assert ids(written(tmp_path, "log.json", json.dumps(records, indent=1).encode())) == [
        "r0",
        "bad 7",
        "r1",
    ]


@pytest.mark.parametrize("data", [LINES, json.dumps(RECORDS).encode()], ids=["lines", "array"])
def test_a_cut_gzip_file_is_told_at_its_end(tmp_path: Path, data: bytes) -> None:
    packed = gzip.compress(data)
    found = ids(written(tmp_path, "log.gz", packed[:-12]))
    assert found[-1].startswith("bad")
    assert "gz" not in found


def test_what_only_begins_like_gzip_is_told(tmp_path: Path) -> None:
    assert ids(written(tmp_path, "log.gz", b"\x1f\x8bnonsense")) == ["bad 1"]


def test_a_damaged_parquet_file_is_told(tmp_path: Path) -> None:
    assert ids(written(tmp_path, "log.parquet", b"PAR1 nonsense PAR1")) == ["bad 1"]


def test_a_line_too_long_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_files, "MAX_LINE_BYTES", 200)
    path = written(tmp_path, "log.jsonl", b'{"prompt": "' + b"a" * 1000 + b'"}\n' + LINES)
    assert ids(path) == ["bad 1", *ALL]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"[]", gzip.compress(b"")])
def test_nothing_gives_nothing(tmp_path: Path, data: bytes) -> None:
    assert ids(written(tmp_path, "log", data)) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        ids(tmp_path / "nowhere.jsonl")
    with pytest.raises(BadInput, match="is a folder"):
        ids(tmp_path)


@pytest.mark.parametrize("data", [LINES, gzip.compress(LINES), json.dumps(RECORDS).encode()])
def test_standard_input(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert ids("-") == ALL


def test_a_pipe_is_read_while_it_is_written() -> None:
    code = (
        "import sys\n"
        "from quality_lib.adapters.logs.exchange_files import read_exchanges\n"
        "for found in read_exchanges('-'): print(found.id, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id": "first", "prompt": "Hi"}\n')
        process.stdin.flush()
        assert process.stdout.readline() == b"first\n"
        process.stdin.close()


@pytest.mark.parametrize("is_array", [False, True])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, is_array: bool) -> None:
    record = json.dumps({"id": "r", "prompt": "Hi", "text": "word " * 400})
    path = tmp_path / "log"
    with path.open("w") as file:
        file.write("[" if is_array else "")
        for number in range(10_000):
            file.write(("," if is_array and number else "") + record + ("" if is_array else "\n"))
        file.write("]" if is_array else "")
    tracemalloc.start()
    count = sum(isinstance(found, Exchange) for found in read_exchanges(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 12 * 2**20 < path.stat().st_size
