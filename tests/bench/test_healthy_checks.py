"""The benchmark of healthy checks can fail: it pages when the checks are not healthy, and says when it knows nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.healthy_checks import (
    cross_judged,
    different_answers,
    judge,
    most_per_year,
    platform_of,
    result_of,
    seconds_by_mode,
    track,
)
from quality_lib.adapters.files.readings import PLAN
from quality_lib.adapters.files.run_folder import write_json
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.reading import Block, CheckReading
from quality_lib.errors import BadInput
from tests.drift.readings import LIMITS, QUIET, REFERENCE, Server, check, made_by


@pytest.fixture(scope="module")
def noisy() -> list[CheckReading]:
    return made_by(Server(1))


def test_healthy_checks_page_nobody_and_each_is_judged_once(noisy: list[CheckReading]) -> None:
    halves = cross_judged(noisy, REFERENCE, LIMITS, "", calibrate)
    found = track(halves, LIMITS)
    assert (found["judged"], found["pages"], found["changed"]) == (len(noisy), 0, 0)
    assert found["silent"] == 0
    assert 0 < found["highest_evidence"] < found["alarm_from"]
    assert sum(found["calibrated_on"].values()) == len(noisy)
    assert 0 < found["at_most_per_year"] < LIMITS.checks_per_year * 3 / len(noisy) * 1.01


def test_checks_that_are_not_healthy_page(noisy: list[CheckReading]) -> None:
    """The last start answers worse: judged by others it pages, and the other half learns from it."""
    worse = Server(2, shift=0.5)
    mixed = [worse.read(c.block, burst=c.burst) if c.block.start == "start7" else c for c in noisy]
    halves = cross_judged(mixed, REFERENCE, LIMITS, "", calibrate)
    assert halves["odd"].pages > 0
    assert halves["even"].pages == 0
    assert track(halves, LIMITS)["pages"] == halves["odd"].pages


def test_where_every_bit_repeats_one_moved_score_counts() -> None:
    exact = made_by(Server(1, noise=0.0, forks=0.0))
    found = result_of(exact, REFERENCE, LIMITS, "")["tracks"]["all loads"]
    assert (found["pages"], found["rechecks"], found["changed"]) == (0, 0, 0)
    moved = Server(3, noise=1e-9, forks=0.0).read(exact[-1].block, burst=exact[-1].burst)
    twice = [*exact[:-2], *(replace(moved, check_id=f"moved{n}") for n in range(2))]
    found = result_of(twice, REFERENCE, LIMITS, "")["tracks"]["all loads"]
    assert found["rechecks"] > 0
    assert found["changed"] > 0


def test_checks_that_cannot_be_judged_prove_nothing(noisy: list[CheckReading]) -> None:
    other = [
        replace(c, block=replace(c.block, load=99)) if n % 2 else c for n, c in enumerate(noisy)
    ]
    known = calibrate([c for c in noisy if c.block.start < "start4"], REFERENCE, LIMITS)
    found = judge(other, REFERENCE, known, LIMITS)
    assert found.silent == len(noisy) // 2
    assert track({"even": found}, LIMITS)["judged"] == len(noisy) // 2


def test_a_track_without_enough_checks_says_so_and_is_no_zero(noisy: list[CheckReading]) -> None:
    found = result_of(noisy[:20], REFERENCE, LIMITS, "")
    for one in found["tracks"].values():
        assert set(one) == {"no_data"}
    assert result_of([], REFERENCE, LIMITS, "")["checks"] == 0


def test_seconds_are_those_between_checks_of_one_start_without_decoding() -> None:
    scored = [probe for probe in REFERENCE.probes if probe.channel in {"chat_scored", "raw_scored"}]

    def at(second: str, block: str = "a", decoded: bool = False) -> CheckReading:
        probes = REFERENCE.probes if decoded else scored
        place = replace(QUIET, start=block, load=1)
        return check(probes, f"{block}{second}", place, f"2026-01-01T00:00:{second}+00:00")

    checks = [at("00"), at("02.5"), at("05", decoded=True), at("30"), at("40", "b"), at("41", "b")]
    assert seconds_by_mode(checks) == {"1 at once, warm": 2.5}
    assert seconds_by_mode([]) == {}


@pytest.mark.parametrize(
    ("pages", "checks", "bound"), [(0, 2000, 13.1), (2, 2000, 27.6), (3, 3, 8760.0)]
)
def test_what_a_number_of_checks_proves(pages: int, checks: int, bound: float) -> None:
    assert most_per_year(pages, checks, 8760) == pytest.approx(bound, abs=0.1)


def test_starts_of_two_deployments_are_not_put_together(tmp_path: Path) -> None:
    for start, key in ((1, "a"), (2, "a"), (3, "b")):
        folder = tmp_path / "healthy" / f"start-{start:02}"
        folder.mkdir(parents=True)
        write_json(folder / PLAN, {"deployment_key": key, "platform": "p"})
    assert platform_of(tmp_path, [1, 2]) == "p"
    with pytest.raises(BadInput, match="deployment_key") as told:
        platform_of(tmp_path, [1, 2, 3])
    assert "start-03" in str(told.value)


def test_different_answers_are_counted_by_probe_and_load() -> None:
    exact, noisy = Server(1, noise=0.0, forks=0.0), Server(2)
    checks = [exact.read(Block("s", 1, "cold")) for _ in range(3)]
    checks += [noisy.read(Block("s", 4, "cold")) for _ in range(5)]
    scored = sum(p.channel.endswith("scored") for p in REFERENCE.probes)
    assert different_answers(checks) == {
        "1 at once": {"probes": scored, "mean": 1.0, "most": 1},
        "4 at once": {"probes": scored, "mean": 5.0, "most": 5},
        "all": {"probes": scored, "mean": 6.0, "most": 6},
    }
