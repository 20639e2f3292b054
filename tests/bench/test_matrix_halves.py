"""Calibration and evaluation never meet, and mixtures are made of real rows."""

from __future__ import annotations

import dataclasses

import pytest

from bench.faults.fault import Expected
from bench.matrix.halves import Halves, is_calibration, split
from bench.matrix.mixture import SHARES, mixed, mixtures
from bench.matrix.recording import Track
from quality_lib.errors import BadInput
from tests.bench.recordings import faulty, made, recorded


def test_starts_alternate() -> None:
    assert [is_calibration(start) for start in (1, 2, 3, 4)] == [True, False, True, False]


def test_a_split_by_start() -> None:
    halves = split(recorded(), Track.DETERMINISTIC)
    assert {c.head.start for c in halves.calibration} == {1, 3}
    assert {c.head.start for c in halves.healthy} == {2, 4}
    assert {c.head.fault for c in halves.faulty} == {
        "int8", "load-32", "noise-2^-7-0", "noise-2^-7-1", "noise-2^-7-2"
    }  # fmt: skip
    assert all(c.head.track is Track.DETERMINISTIC for c in halves.healthy)


def test_a_fault_in_a_calibrating_start_is_refused() -> None:
    with pytest.raises(BadInput, match="start that calibrates"):
        split([made("h", 1), faulty("f", 3)], Track.DETERMINISTIC)


def test_halves_that_share_anything_cannot_be_made() -> None:
    learned, judged = made("h", 1), made("g", 2)
    assert Halves((learned,), (judged,), ()).calibration == (learned,)
    for halves in (
        ((learned,), (made("x", 1),), ()),
        ((learned,), (), (faulty("f", 1),)),
        ((), (judged,), ()),
        ((dataclasses.replace(learned, head=dataclasses.replace(learned.head, expected=Expected.CHANGED)),), (judged,), ()),
        ((learned,), (dataclasses.replace(judged, head=dataclasses.replace(judged.head, server="server-1")),), ()),
    ):  # fmt: skip
        with pytest.raises(BadInput):
            Halves(*halves)


def test_a_mixture_takes_each_row_from_one_of_two_checks() -> None:
    healthy, harmed = made("h", 2), faulty("f", 2, forks=5)
    found = mixed(healthy, harmed, 0.5, 3, is_sticky=False)
    assert [row.key for row in found.rows] == [row.key for row in healthy.rows]
    sources = [row in harmed.rows for row in found.rows if row.channel == "greedy"]
    assert any(sources)
    assert not all(sources)
    assert (found.head.track, found.head.number, found.head.share) == (Track.MIXTURE, 20, 0.5)
    assert mixed(healthy, harmed, 0.5, 3, is_sticky=False) == found


def test_a_sticky_mixture_hits_whole_sessions() -> None:
    healthy, harmed = made("h", 2), faulty("f", 2, forks=5)
    for seed in range(10):
        found = mixed(healthy, harmed, 0.5, seed, is_sticky=True)
        for case in "abcde":
            told = {
                row in harmed.rows
                for row in found.rows
                if row.case_id == case and row.channel != "sampled"
            }
            assert len(told) == 1


@pytest.mark.parametrize("share", SHARES)
def test_the_share_of_rows_that_are_hit(share: float) -> None:
    healthy, harmed = (
        [made(f"h{n}", 2) for n in range(3)],
        [faulty(f"f{n}", 2, forks=5) for n in range(3)],
    )
    found = mixtures(healthy, harmed, share, 400, 1)
    rows = [
        any(row in one.rows for one in harmed)
        for check in found
        for row in check.rows
        if row.channel == "raw_scored"
    ]
    assert sum(rows) / len(rows) == pytest.approx(share, abs=0.004 + 0.2 * share)


def test_nothing_to_mix() -> None:
    assert mixtures([], [faulty("f", 2)], 0.5, 10, 1) == []
    with pytest.raises(BadInput):
        mixed(made("h", 2), faulty("f", 2), 0.0, 1, is_sticky=False)
