"""Healthy checks on disk: whole after a kill, and never mixed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.files.readings import (
    PLAN,
    READINGS,
    RECHECKS,
    ReadingsFolder,
    ReadingsJournal,
)
from quality_lib.drift.reading import Block, CheckReading, ProbeReading
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure

PLAN_OF = {"service": "chat", "deployment_key": "d1", "probes": [["c1", "raw_scored"]]}


def reading(number: int = 0) -> CheckReading:
    probe = ProbeReading("c1", "raw_scored", (7, 7, 7), (-0.1, None, -1 / 3))
    return CheckReading(f"r{number}", "2026-01-01", Block("s1", 4, "cold"), (probe,), "s1/0")


def opened(folder: Path, resume: bool = False, **changes: Any) -> ReadingsFolder:
    return ReadingsFolder(folder, {**PLAN_OF, **changes}, resume=resume)


def test_what_was_recorded_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    folder = opened(tmp_path / "new" / "folder")
    folder.record(reading(1))
    folder.record(dataclasses.replace(reading(2), burst=None, running=17))
    folder.close()
    again = opened(folder.folder, resume=True)
    again.close()
    assert again.readings == [reading(1), dataclasses.replace(reading(2), burst=None, running=17)]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_line_cut_by_a_kill_is_taken_away(tmp_path: Path, cut: int) -> None:
    folder = opened(tmp_path)
    folder.record(reading(1))
    folder.record(reading(2))
    folder.close()
    path = tmp_path / READINGS
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    again = opened(tmp_path, resume=True)
    again.close()
    assert again.readings == [reading(1)]
    assert path.read_bytes() == whole[: whole.index(b"\n") + 1]


def test_a_folder_is_not_added_to_by_accident(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.record(reading())
    folder.close()
    with pytest.raises(BadInput, match="add --resume"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"deployment_key": "d2"}, "deployment_key"), ({"probes": []}, "probes")],
)
def test_checks_of_something_else_are_not_mixed_in(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    opened(tmp_path).close()
    with pytest.raises(DigestMismatch) as refused:
        opened(tmp_path, resume=True, **changes)
    assert refused.value.field == field


@pytest.mark.parametrize("line", ["{}", "[1]", "nonsense", '{"check_id": "a", "at": "b"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / READINGS).write_text(line + "\n", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        opened(tmp_path, resume=True)
    assert refused.value.line == 1


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text("{", encoding="utf-8")
    with pytest.raises(BadInput, match=PLAN):
        opened(tmp_path, resume=True)


def test_a_folder_that_cannot_be_is_an_outside_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutsideFailure, match="cannot be written"):
        opened(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    "probe",
    [
        ProbeReading("c1", "greedy", (5, 6, 9), ()),
        ProbeReading("c1", "seeded", (), (), problem="refused: HTTP 500"),
        ProbeReading("c1", "raw_scored", (), (), problem="transport: reset"),
        ProbeReading("c1", "chat_scored", (7, 7, 7), ()),
        ProbeReading("c1", "chat_scored", (7,), (-1.0, -2.0)),
        ProbeReading("c1", "raw_scored", (), ()),
        ProbeReading("c1", "raw_scored", (7, 7), (float("-inf"), -0.0)),
    ],
)
def test_what_a_sick_server_said_is_read_back_as_it_was(
    tmp_path: Path, probe: ProbeReading
) -> None:
    kept = ReadingsJournal(tmp_path / RECHECKS, "try again")
    sick = dataclasses.replace(reading(), probes=(probe, *reading().probes), burst=None)
    kept.record(sick)
    kept.close()
    again = ReadingsJournal(tmp_path / RECHECKS, "try again")
    again.close()
    assert again.readings == [sick]
