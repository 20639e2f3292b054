"""Waiting for the exchange log to leave its folder, while more is recorded all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.logs.shipped_log import await_shipped
from quality_lib.errors import OutsideFailure


def test_only_what_was_there_is_awaited(tmp_path: Path) -> None:
    first = tmp_path / "a.jsonl"
    first.write_text("{}\n")
    (tmp_path / "empty.jsonl").touch()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        (tmp_path / f"later-{len(waits)}.jsonl").write_text("{}\n")
        if len(waits) == 3:
            first.unlink()

    await_shipped(tmp_path, 60.0, sleep=sleep)
    assert len(waits) == 3


def test_what_stays_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_text("x")
    with pytest.raises(OutsideFailure, match=r"a\.jsonl\.gz was not shipped within 2 s"):
        await_shipped(tmp_path, 2.0, sleep=lambda _: None)


def test_nothing_recorded_is_nothing_to_wait_for(tmp_path: Path) -> None:
    await_shipped(tmp_path, 0.0, sleep=lambda _: pytest.fail("waited"))
