"""Every way in which JSON lies in a log object, and every way in which it is broken."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator

import pytest

from quality_lib.exchanges.entries import MIB, Broken, Entry, entries
from quality_lib.exchanges.log_limits import ReadLimits

ONE, TWO = {"a": 1}, {"b": [{"c": "ü"}]}
LINES = f"{json.dumps(ONE)}\n{json.dumps(TWO, ensure_ascii=False)}\n".encode()


def read(content: bytes, block: int = 7, **limits: float) -> list[Entry | Broken]:
    blocks = (content[at : at + block] for at in range(0, len(content), block))
    return list(entries(blocks, ReadLimits(**limits)))


def values(content: bytes) -> list[object]:
    """Give what was read, and the line where nothing could be."""
    return [e.value if isinstance(e, Entry) else e.line for e in read(content)]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (LINES, [1, 2]),
        (LINES.replace(b"\n", b"\r\n"), [1, 2]),
        (b"\xef\xbb\xbf" + LINES, [1, 2]),
        (b"\n\n  \n" + LINES, [4, 5]),
        (LINES.replace(b"\n", b""), [1, 1]),
        (LINES.rstrip(), [1, 2]),
        (json.dumps([ONE, TWO]).encode(), [1, 1]),
        (json.dumps([ONE, TWO], indent=2).encode(), [2, 5]),
        (f"{json.dumps(ONE, indent=1)}\n{json.dumps(TWO, indent=4)}".encode(), [1, 4]),
        (LINES.replace(b"{", b"\x1e{", 1), [1, 2]),
        (gzip.compress(LINES), [1, 2]),
        (b"".join(gzip.compress(line) for line in LINES.splitlines(keepends=True)), [1, 2]),
        (gzip.compress(LINES) + b"\0" * 20, [1, 2]),
    ],
)
def test_one_content_in_many_layouts(content: bytes, lines: list[int]) -> None:
    for block in (1, 7, MIB):
        found = read(content, block)
        assert [e.value for e in found if isinstance(e, Entry)] == [ONE, TWO]
        assert [e.line for e in found] == lines


@pytest.mark.parametrize("content", [b"", b" \n\r\n", b"[]", gzip.compress(b""), b"\xef\xbb\xbf"])
def test_nothing_is_no_entry(content: bytes) -> None:
    assert read(content) == []


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"a":"cut off he\n{"a":1}\n', [1, ONE]),
        (b'{"a":1,\n{"a":1}\n{"a":1}', [1, ONE, ONE]),
        (b'{"a":[\n{"a":1}\n{"a":1}', [1, ONE, ONE]),
        (b'{"a":1}\n{"a":"killed whi', [ONE, 2]),
        (b'not json\nneither\n{"a":1}', [1, 2, ONE]),
        (b'5\n"text"\nnull\n{"a":1}', [1, 2, 3, ONE]),
        (b'{"a":"\xff\xfe"}\n{"a":1}', [1, ONE]),
        (b'{"a":1}\0\0\n{"a":1}', [ONE, 1, ONE]),
        (b'{"a":' * 100_000 + b'\n{"a":1}', [1, ONE]),
        (b'{"a":1' + b"0" * 5000 + b'}\n{"a":1}', [1, ONE]),
        (b'[\n  {"a":1},\n  {"a":oops},\n  {"a":1}\n]', [ONE, 3, ONE]),
        ('{"a":1}\n'.encode("utf-16"), [1, 2]),
        (b"PAR1" + b"\0" * 50, [1]),
        (gzip.compress(LINES)[:-9], [ONE, TWO, 3]),
        (gzip.compress(LINES * 500)[:60], None),
        (b"\x1f\x8b rubbish", [1]),
    ],
)
def test_what_is_broken_costs_itself_only(content: bytes, found: list[object] | None) -> None:
    seen = values(content)
    if found is None:
        assert isinstance(read(content)[-1], Broken)
    else:
        assert seen == found


def test_a_bad_line_says_what_is_wrong_and_quotes_nothing() -> None:
    (broken,) = read(b'{"secret": "word" "word"}')
    assert isinstance(broken, Broken)
    assert "column" in broken.problem
    assert "word" not in broken.problem


def test_odd_json_that_python_takes_is_taken() -> None:
    (entry,) = read(rb'{"nan": NaN, "surrogate": "\ud83d", "same": 1, "same": 2}')
    assert isinstance(entry, Entry)
    assert entry.value["surrogate"] == "\ud83d"
    assert entry.value["same"] == 2


@pytest.mark.parametrize("block", [1000, MIB, 8 * MIB])
def test_an_entry_over_the_limit_is_skipped(block: int) -> None:
    content = b'{"a":"' + b"x" * (2 * MIB) + b'"}\n{"a":1}'
    found = read(content, block, max_entry_mb=1)
    assert [type(e) for e in found] == [Broken, Entry]
    assert "max_entry_mb" in str(found[0])
    assert [type(e) for e in read(content, block, max_entry_mb=3)] == [Entry, Entry]


def test_a_zip_bomb_ends_at_the_limit() -> None:
    bomb = gzip.compress(b'{"a":1}\n' * (4 * MIB // 8), 9)
    found = read(bomb, MIB, max_object_mb=1)
    assert isinstance(found[-1], Broken)
    assert "max_object_mb" in found[-1].problem
    assert len(found) - 1 == MIB // 8


@pytest.mark.parametrize(
    "line", [b'{"a":"' + b"x" * 1000 + b'"}\n', b"[" * 1000, b"rubbish " * 100]
)
def test_memory_does_not_grow_with_the_object(line: bytes) -> None:
    def blocks() -> Iterator[bytes]:
        for _ in range(24):
            yield line * (MIB // len(line))

    tracemalloc.start()
    for _ in entries(blocks(), ReadLimits(max_entry_mb=4)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MIB, f"{peak / MIB:.0f} MiB for 24 MiB of log"
