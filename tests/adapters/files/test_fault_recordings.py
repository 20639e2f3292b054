"""Recorded faults as numbers for the choice of the sentinel set, and clear words where they cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.matrix.parquet_files import write_checks
from quality_lib.adapters.files.fault_recordings import read_faults
from quality_lib.errors import BadInput
from quality_lib.golden.recorded_faults import LARGEST_Z
from tests.adapters.files.recordings import recorded, write_recording
from tests.bench import recordings as of_matrix

CASES = frozenset({"a", "b", "c"})
HEALTH = [recorded(case, by=0.01 * n) for case in CASES for n in range(4)]
"""Movements from the first: 0.01, 0.02, 0.03: a mean of 0.02 and a deviation of 0.01."""


def read(folder: Path, *rows: dict[str, Any], health: bool = True) -> dict[str, dict[str, float]]:
    write_recording(folder / "1.parquet", [*rows, *(HEALTH if health else [])])
    return {fault: dict(z) for fault, z in read_faults(folder, CASES).items()}


def near(**z: float) -> Any:
    return pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([recorded("a", "f", 0.07), recorded("b", "f", 0.02)], {"f": near(a=5.0, b=0.0)}),
        ([recorded("a", "f", -0.07)], {"f": near(a=5.0)}),
        ([recorded("a", "f", 0.07), recorded("a", "f", 0.03)], {"f": near(a=3.0)}),
        ([recorded("a", "f", 100.0)], {"f": near(a=LARGEST_Z)}),
        ([recorded("a", "f", 0.07), recorded("a", "g", 0.06)], {"f": near(a=5.0), "g": near(a=4.0)}),
        # Another number of tokens, and a score that is none, cannot be further from health.
        ([recorded("a", "f", logprobs=[-0.5])], {"f": near(a=LARGEST_Z)}),
        ([recorded("a", "f", logprobs=[-0.5, None, -2.0])], {"f": near(a=LARGEST_Z)}),
        ([recorded("a", "f", logprobs=[-0.5, float("nan"), -2.0])], {"f": near(a=LARGEST_Z)}),
        # What has no scores says nothing, other channels are passed over, controls are no faults.
        ([recorded("a", "f", 0.07), recorded("b", "f", logprobs=[])], {"f": near(a=5.0)}),
        ([recorded("a", "f", 0.07), recorded("b", "f", 9.0, channel="greedy")], {"f": near(a=5.0)}),
        ([recorded("a", "f", 0.07), recorded("a", "load-8", expected="silent")], {"f": near(a=5.0)}),
        ([recorded("a", "f", 0.07), recorded("stranger", "f", 9.0)], {"f": near(a=5.0)}),
    ],
)  # fmt: skip
def test_movements_are_told_in_healthy_deviations(
    tmp_path: Path, rows: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert read(tmp_path, *rows) == expected


def test_each_channel_and_track_has_a_health_of_its_own(tmp_path: Path) -> None:
    calm = [recorded("a", by=0.001 * n, track="calm") for n in range(4)]
    chat = [recorded("a", by=0.02 * n, channel="chat_scored") for n in range(4)]
    found = read(
        tmp_path, *calm, *chat,
        recorded("a", "f", 0.07), recorded("a", "f", 0.07, track="calm"),
        recorded("a", "f", 0.07, channel="chat_scored"),
    )  # fmt: skip
    assert found == {"f (calm)": near(a=LARGEST_Z), "f (noisy)": near(a=5.0)}


def test_faults_may_stand_before_health_and_in_another_file(tmp_path: Path) -> None:
    write_recording(tmp_path / "0.parquet", [recorded("a", "f", 0.07)])
    assert read(tmp_path) == {"f": near(a=5.0)}


def test_other_tools_write_the_same_in_larger_types(tmp_path: Path) -> None:
    texts = dict.fromkeys(("case_id", "channel", "fault", "track", "expected"), pa.large_string())
    rows = [*HEALTH, recorded("a", "f", 0.07), recorded("a", "load-8", expected="silent")]
    write_recording(tmp_path / "1.parquet", rows, **texts, logprobs=pa.large_list(pa.float64()))
    assert read_faults(tmp_path, CASES) == {"f": near(a=5.0)}


def test_what_the_matrix_records_is_read(tmp_path: Path) -> None:
    for number, check in enumerate(of_matrix.recorded()):
        write_checks(tmp_path / f"{number:03}.parquet", [check])
    found = read_faults(tmp_path, frozenset(of_matrix.CASES))
    assert {name.split(" ")[0] for name in found} == {
        "int8", "noise-2^-7-0", "noise-2^-7-1", "noise-2^-7-2",
    }  # fmt: skip
    assert {z for cases in found.values() for z in cases.values()} == {LARGEST_Z}
    assert {case for cases in found.values() for case in cases} == set(of_matrix.CASES)


@pytest.mark.parametrize(
    ("rows", "health", "field", "words"),
    [
        ([], True, "fault", "holds no fault"),
        ([recorded("a", "load-8", expected="silent")], True, "fault", "holds no fault"),
        ([recorded("a", "f", 0.07)], False, "fault", "not 3 healthy scores"),
        ([recorded("a", "f"), recorded("a"), recorded("a")], False, "fault", "not 3 healthy"),
        ([recorded("a", "f", 0.07, track="other")], True, "fault", "not 3 healthy scores"),
        ([recorded("a", "f", 0.07, channel="greedy")], True, "fault", "not 3 healthy scores"),
        ([recorded("x", "f", 9.0), *(recorded("x", by=n) for n in range(4))], False, "case_id", "no case"),
        ([recorded("a", None)], True, "fault", "row without a value"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_recordings_that_cannot_choose_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], health: bool, field: str, words: str
) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        read(tmp_path, *rows, health=health)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("types", "words"),
    [
        ({"track": None}, "has no such column; there are case_id, channel"),
        ({"logprobs": None}, "has no such column"),
        ({"logprobs": pa.list_(pa.string())}, "instead of lists of numbers"),
        ({"logprobs": pa.float64()}, "instead of lists of numbers"),
        ({"case_id": pa.int64()}, "holds int64 instead of texts"),
    ],
)
def test_a_column_that_cannot_be_used_is_named_with_its_file(
    tmp_path: Path, types: dict[str, Any], words: str
) -> None:
    (name,) = types
    (kind,) = types.values()
    row = {**recorded("a", "f"), name: 7 if kind == pa.int64() else None}
    write_recording(tmp_path / "bad.parquet", [row], **types)
    with pytest.raises(BadInput, match=words) as refused:
        read_faults(tmp_path, CASES)
    assert (refused.value.field, Path(str(refused.value.file)).name) == (name, "bad.parquet")


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" + bytes(64) + b"PAR1", b"no Parquet at all"]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    write_recording(tmp_path / "1.parquet", HEALTH)
    (tmp_path / "2.parquet").write_bytes(content)
    with pytest.raises(BadInput, match=r"2\.parquet: is no readable Parquet file"):
        read_faults(tmp_path, CASES)


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    write_recording(tmp_path / "1.parquet", HEALTH)
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match=r"1\.parquet"):
        read_faults(tmp_path, CASES)


@pytest.mark.parametrize(
    ("below", "words"), [(".", "no \\*.parquet file"), ("nowhere", "is no folder")]
)
def test_a_folder_without_recordings(tmp_path: Path, below: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_faults(tmp_path / below, CASES)
