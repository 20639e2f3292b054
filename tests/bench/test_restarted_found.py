"""Which of the deployments that differ from their start on the product pages for, and that it can also say no."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.faults.fault import Expected, Fault
from bench.faults.quantised import W8A8
from bench.healthy_checks import made_starts
from bench.restarted_found import Found, deployments, found_of, is_right
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.errors import BadInput
from tests.drift.readings import CASES, LIMITS, QUIET, REFERENCE, Server, made_by

CHANGED = Fault(5, "w8a8", "int8", W8A8(), expected=Expected.CHANGED)
CONTROL = Fault(0, "restart", "restart", W8A8(), expected=Expected.SILENT)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(made_by(Server(1), starts=4), REFERENCE, LIMITS, "")


def _found(fault: Fault, server: Server, calibration: Calibration, **read: list[str]) -> Found:
    def ask(number: int) -> object:
        return server.read(QUIET, burst=f"now-{number}", **read)

    return found_of(fault, ask, REFERENCE, calibration, LIMITS, 8)  # type: ignore[arg-type]


def test_a_healthy_restart_stays_silent(calibration: Calibration) -> None:
    found = _found(CONTROL, Server(2), calibration)
    assert (found.checks, found.paged_after, found.unanswered) == (8, None, 0)
    assert is_right(found)
    assert not is_right(_found(CHANGED, Server(2), calibration))


def test_a_change_is_paged_and_no_more_is_asked(calibration: Calibration) -> None:
    found = _found(CHANGED, Server(2, shift=0.5), calibration)
    assert found.paged_after is not None
    assert found.checks == found.paged_after < 8
    assert found.changed_after is not None
    assert found.changed_after <= found.paged_after
    assert found.reasons
    assert is_right(found)
    assert not is_right(_found(CONTROL, Server(2, shift=0.5), calibration))


def test_a_server_that_does_not_answer_is_no_data_and_no_find(calibration: Calibration) -> None:
    found = _found(CHANGED, Server(2), calibration, lost=list(CASES))
    assert (found.unanswered, found.paged_after) == (8, None)
    assert not is_right(found)


def test_the_control_and_the_checkpoint_are_among_the_deployments() -> None:
    found = {fault.name: fault.expected for fault in deployments([])}
    assert found["restart"] is Expected.SILENT
    assert found["w8a8"] is Expected.CHANGED
    assert {"rope-config", "tokenizer-permuted", "context-short", "cache-fp8-server"} <= set(found)
    assert [fault.name for fault in deployments(["w8a8"])] == ["w8a8"]
    with pytest.raises(BadInput, match="there is no int8"):
        deployments(["int8"])


def test_starts_are_told_by_their_folders(tmp_path: Path) -> None:
    assert made_starts(tmp_path) == []
    for name in ("start-02", "start-11", "start-03"):
        (tmp_path / "healthy" / name).mkdir(parents=True)
    for name in ("start-02", "start-11"):
        (tmp_path / "healthy" / name / "readings.jsonl").touch()
    assert made_starts(tmp_path) == [2, 11]
