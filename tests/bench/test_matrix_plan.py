"""What is recorded: every fault once, in evaluating starts, under names that files can have."""

from __future__ import annotations

import pytest

from bench.faults.catalogue import Given, Sizes, catalogue, short_form
from bench.faults.controls import Manner, controls
from bench.matrix import plan
from bench.matrix.halves import is_calibration
from bench.matrix.recording import Track

GIVEN = Given("{% if loop.first %}s{% endif %}<|im_start|>assistant\n")
FAULTS = catalogue(GIVEN, Sizes(8, 8, 1, 2))
SIZE = plan.Size(starts=6, healthy_checks=5, blocks=3, repeats=4, single_repeats=7)


def test_faults_come_in_evaluating_starts_and_each_in_one() -> None:
    units = plan.units(SIZE, FAULTS, controls())
    starts: dict[str, set[int]] = {}
    for unit in units:
        if unit.fault:
            assert not is_calibration(unit.start)
            starts.setdefault(unit.fault.name, set()).add(unit.start)
    assert {len(own) for own in starts.values()} == {1}
    assert set.union(*starts.values()) == {2, 4, 6}
    expected = {fault.name for fault in FAULTS if not fault.needs_restart}
    assert expected <= set(starts)


@pytest.mark.parametrize(
    ("name", "deterministic", "noisy"), [("no-system-prompt", 4, 4), ("int8", 4, 7), ("int4", 4, 7)]
)
def test_repeats_are_kept_on_both_tracks(name: str, deterministic: int, noisy: int) -> None:
    units = [u for u in plan.units(SIZE, FAULTS) if u.fault and u.fault.name == name]
    for track, checks in ((Track.DETERMINISTIC, deterministic), (Track.NOISY, noisy)):
        assert sum(u.checks for u in units if u.track is track) == checks
    assert len({u.block for u in units if u.track is Track.NOISY}) == 3


def test_every_start_has_its_healthy_checks_first() -> None:
    units = plan.units(SIZE, FAULTS)
    for start in range(1, 7):
        own = [u for u in units if u.start == start]
        assert [u.fault for u in own[:4]] == [None] * 4
        assert [u.track for u in own[:4]] == [Track.DETERMINISTIC, *[Track.NOISY] * 3]


def test_recorders_share_whole_starts_and_leave_nothing_out() -> None:
    units = plan.units(SIZE, FAULTS, controls())
    shares = [plan.share_of(units, part, 2) for part in (1, 2)]
    assert sorted(u.key for share in shares for u in share) == sorted(u.key for u in units)
    own = [{u.start for u in share} for share in shares]
    assert own == [{1, 2, 5, 6}, {3, 4}]
    assert plan.share_of(units, 1, 1) == units


def test_keys_are_unique_file_names() -> None:
    units = plan.units(SIZE, FAULTS, controls())
    keys = [unit.key for unit in units]
    assert len(set(keys)) == len(keys)
    assert all("/" not in key and not key.startswith(".") for key in keys)


def test_faults_within_a_noisy_hour_share_its_manner() -> None:
    units = [u for u in plan.units(SIZE, FAULTS) if u.track is Track.NOISY]
    manners: dict[tuple[int, int], set[Manner]] = {}
    for unit in units:
        manners.setdefault((unit.start, unit.block), set()).add(unit.manner)
    assert {len(own) for own in manners.values()} == {1}
    told = {
        m: {
            (one.load, one.cache)
            for (start, _), own in manners.items()
            for one in own
            if start % 2 == m
        }
        for m in (0, 1)
    }
    assert told[0] == told[1], "both halves meet the same load and cache states"
    assert len(told[0]) == 9
    orders = [manner.order for own in manners.values() for manner in own]
    assert len(set(orders)) == len(orders)


def test_what_needs_a_restart_gets_starts_of_its_own() -> None:
    needs = plan.restarted(FAULTS, controls())
    assert {"tokenizer-permuted", "context-short", "float32", "restart"} <= {
        need.fault.name for need in needs
    }
    units = plan.restarted_units(SIZE, needs)
    assert len({unit.start for unit in units}) == len(units)
    assert all(unit.start > SIZE.starts and not is_calibration(unit.start) for unit in units)


def test_the_short_form_is_short() -> None:
    units = plan.units(plan.SHORT, short_form(GIVEN), controls())
    assert sum(unit.checks for unit in units) < 100
    assert {unit.start for unit in units} == {1, 2, 3, 4}
