"""bounds.json: written whole, read back, told with its name when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.files.bounds import BOUNDS, read_bounds, write_bounds
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.gates.bounds import LearnedBounds, Range

LEARNED = LearnedBounds(mean_entropy=Range(0.1, 3.25), answers=150, false_alarm=0.02)


def test_a_file_or_its_folder_is_read(tmp_path: Path) -> None:
    write_bounds(tmp_path / "b" / BOUNDS, LEARNED)
    assert read_bounds(tmp_path / "b") == read_bounds(tmp_path / "b" / BOUNDS) == LEARNED


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_no_json_is_told_with_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / BOUNDS).write_bytes(content)
    with pytest.raises(BadInput, match=r"bounds\.json"):
        read_bounds(tmp_path)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="quality golden baseline"):
        read_bounds(tmp_path)


def test_a_disk_that_refuses_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("")
    with pytest.raises(OutsideFailure, match=BOUNDS):
        write_bounds(tmp_path / "b" / BOUNDS, LEARNED)
