"""Which of the deployments that differ from their start on the product pages for, and that it can also say no."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.faults.fault import Expected
from bench.healthy_checks import made_starts
from bench.packaged import BASE_NAME, NAME, Served
from bench.restarted_found import (
    Deployment,
    Found,
    chosen,
    deployments,
    found_of,
    is_right,
)
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.errors import BadInput
from tests.drift.readings import CASES, LIMITS, QUIET, REFERENCE, Server, made_by


def _deployment(name: str, expected: Expected) -> Deployment:
    return Deployment(name, expected, lambda work: nullcontext(Served(work).spec(1)))


CHANGED = _deployment("w8a8", Expected.CHANGED)
CONTROL = _deployment("restart", Expected.SILENT)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(made_by(Server(1), starts=4), REFERENCE, LIMITS, "")


def _found(
    deployment: Deployment, server: Server, calibration: Calibration, **read: list[str]
) -> Found:
    def ask(number: int) -> object:
        return server.read(QUIET, burst=f"now-{number}", **read)

    return found_of(deployment, ask, REFERENCE, calibration, LIMITS, 8)  # type: ignore[arg-type]


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


def test_the_control_and_the_checkpoint_are_among_the_deployments(tmp_path: Path) -> None:
    among = deployments(Served(tmp_path))
    found = {deployment.name: deployment.expected for deployment in among}
    assert found["restart"] is Expected.SILENT
    assert found["w8a8"] is Expected.CHANGED
    assert {"rope-config", "tokenizer-permuted", "context-short", "cache-fp8-server"} <= set(found)
    assert [deployment.name for deployment in chosen(among, ["w8a8"])] == ["w8a8"]
    assert chosen(among, []) == among
    with pytest.raises(BadInput, match="there is no int8"):
        chosen(among, ["int8"])


def test_a_lost_adapter_leaves_the_model_below_it_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "adapter-2").mkdir()
    healthy = Served(Path("model"), tmp_path / "adapter-1")
    specs = {}
    for deployment in deployments(healthy):
        with deployment.serve(tmp_path) as spec:
            specs[deployment.name] = spec
    lost = specs.pop("adapter-lost")
    assert lost.served_name == NAME
    assert "--enable-lora" not in lost.args
    for name, seed in (("restart", 1), ("adapter-other", 2)):
        assert f"{NAME}={tmp_path / f'adapter-{seed}'}" in specs[name].args
        assert specs[name].served_name == BASE_NAME


def test_starts_are_told_by_their_folders(tmp_path: Path) -> None:
    assert made_starts(tmp_path) == []
    for name in ("start-02", "start-11", "start-03"):
        (tmp_path / "healthy" / name).mkdir(parents=True)
    for name in ("start-02", "start-11"):
        (tmp_path / "healthy" / name / "readings.jsonl").touch()
    assert made_starts(tmp_path) == [2, 11]
