"""A journal of lines: what was appended is there after a kill, and a damaged line is named."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.files.line_journal import LineJournal
from quality_lib.errors import BadInput, OutsideFailure


def opened(path: Path) -> LineJournal[dict[str, Any]]:
    return LineJournal(path, dict, lambda row: {"a": row["a"]}, again="try again")


def entries_of(path: Path) -> list[dict[str, Any]]:
    journal = opened(path)
    journal.close()
    return journal.entries


ENTRIES: list[dict[str, Any]] = [{"a": 1}, {"a": "line \u2028 separator, ü"}, {"a": None}]


def test_entries_come_back_in_their_order_and_more_may_follow(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for number, entry in enumerate(ENTRIES):
        journal = opened(path)
        assert journal.entries == ENTRIES[:number]
        journal.append(entry)
        journal.close()
    assert entries_of(path) == ENTRIES


@pytest.mark.parametrize("cut", [1, 3, 7])
def test_a_kill_loses_the_line_that_was_being_written(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j"
    journal = opened(path)
    for entry in ENTRIES:
        journal.append(entry)
    journal.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = opened(path)
    again.append({"a": 9})
    again.close()
    assert entries_of(path) == [*ENTRIES[:2], {"a": 9}]


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"[]", b'{"b": 1}', b"7"])
def test_a_damaged_line_is_named_and_nothing_is_written(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}\n')
    before = path.read_bytes()
    with pytest.raises(BadInput) as refused:
        opened(path)
    assert (refused.value.file, refused.value.line) == (str(path), 2)
    assert path.read_bytes() == before


@pytest.mark.parametrize("below", ["nowhere/j", "."])
def test_a_place_that_cannot_be_written_is_an_outside_failure(tmp_path: Path, below: str) -> None:
    with pytest.raises(OutsideFailure):
        opened(tmp_path / below)


def test_a_full_disk_is_told_and_the_entry_is_not_taken_for_kept(tmp_path: Path) -> None:
    """``/dev/full`` refuses every byte, as a full disk does."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    journal = opened(tmp_path / "j")
    journal.close()
    journal._file = full.open("wb")
    with pytest.raises(OutsideFailure, match=r"No space left.* and try again"):
        journal.append({"a": 1})
    with contextlib.suppress(OSError):
        journal.close()
    assert journal.entries == []
