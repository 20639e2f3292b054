"""The end of a file: whole lines only, never more than was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.machine.file_tail import last_lines, tail


@pytest.mark.parametrize(
    ("content", "most", "text"),
    [
        (b"", 10, ""),
        (b"one\ntwo\n", 8, "one\ntwo\n"),
        (b"one\ntwo\n", 7, "two\n"),  # a line that is cut is left out
        (b"one\ntwo\n", 4, ""),
        (b"one two three", 5, ""),
        (b"\xff\n", 10, "\ufffd\n"),
    ],
)
def test_the_last_whole_lines(content: bytes, most: int, text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    assert tail(tmp_path / "f", most) == (text, len(content))


@pytest.mark.parametrize(("count", "lines"), [(1, ["c"]), (2, ["b", "c"]), (9, ["a", "b", "c"])])
def test_the_last_lines_that_are_not_blank(count: int, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n\nb\n  \nc\n\n")
    assert last_lines(tmp_path / "f", count, 1000) == lines


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tail(tmp_path / "f", 10)
