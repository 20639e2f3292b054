"""The result of a check survives the disk, infinities included."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from quality_lib.adapters.files.result import RESULT, read_result, write_result
from quality_lib.errors import BadInput, OutsideFailure
from tests.builders import case_comparison, comparison, drift_record, golden_result


def test_a_result_reads_back_as_it_was(tmp_path: Path) -> None:
    worst = case_comparison(logprob_delta=math.inf, missing="HTTP 500")
    drift = drift_record(level=math.inf, e_value=None, bands=("exact_greedy",))
    result = golden_result(comparison=comparison(cases=(worst,)), drift=drift)
    path = write_result(tmp_path, result)
    assert read_result(tmp_path) == result
    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_a_result_of_a_release_without_decisions_reads_back(tmp_path: Path) -> None:
    path = write_result(tmp_path, golden_result())
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["result"]["drift"], data["result"]["verdict"]["basis"]
    del data["result"]["verdict"]["needs_calibration"]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert read_result(tmp_path) == golden_result()
    assert "uncalibrated" in read_result(tmp_path).verdict.basis


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"result": {"schema": 99}}', '{"result": {"schema": 1}}']
)
def test_a_spoilt_result_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / RESULT).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=RESULT):
        read_result(tmp_path)


def test_no_result_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="golden check"):
        read_result(tmp_path)


def test_a_disk_that_refuses_is_an_outside_failure(tmp_path: Path) -> None:
    with pytest.raises(OutsideFailure, match="cannot be written"):
        write_result(tmp_path / "nowhere", golden_result())
