"""The product's procedure on recordings: pages for faults, none for health, and no number out of nothing."""

from __future__ import annotations

from bench.faults.fault import Expected
from bench.matrix.halves import split
from bench.matrix.procedure import procedure
from bench.matrix.recording import Track
from bench.matrix.scoring import reference_of
from tests.bench.recordings import faulty, made, recorded


def test_on_a_server_that_repeats_itself_a_change_pages_within_the_hour() -> None:
    checks = recorded()
    told = procedure(
        split(checks, Track.DETERMINISTIC), reference_of(checks), runs=5, most_hours=30
    )
    assert told["calibration_is_exact"]
    assert told["healthy"]["pages"]["hits"] == 0
    (kind,) = [k for k in told["kinds"] if k["number"] == 5]
    assert (kind["within_an_hour"]["share"], kind["median_hours"], kind["p90_hours"]) == (1.0, 1, 1)


def test_a_control_that_moves_nothing_is_never_paged() -> None:
    checks = [
        *recorded(),
        made("warm", 4, fault="cache-warm", kind="cache", expected=Expected.SILENT),
    ]
    told = procedure(
        split(checks, Track.DETERMINISTIC), reference_of(checks), runs=5, most_hours=30
    )
    (kind,) = [k for k in told["kinds"] if k["kind"] == "cache"]
    assert kind["paged"]["hits"] == 0
    assert kind["median_hours"] is None


def test_noise_costs_hours_and_pages_nobody_in_health() -> None:
    checks = [
        made(f"n{start}-{n}", start, noise=0.02, track=Track.NOISY, block=n % 3)
        for start in range(1, 9)
        for n in range(12)
    ]
    checks += [made("ref", 1), made("ref2", 1)]
    checks += [
        faulty(f"f{n}", 2, noise=0.02, track=Track.NOISY, shift=-0.3, forks=0) for n in range(5)
    ]
    told = procedure(split(checks, Track.NOISY), reference_of(checks), runs=5, most_hours=30)
    assert not told["calibration_is_exact"]
    assert told["healthy"]["pages"]["hits"] == 0
    (kind,) = told["kinds"]
    assert kind["paged"]["share"] == 1.0
    assert kind["median_hours"] >= 1


def test_what_cannot_be_calibrated_is_refused_with_a_reason() -> None:
    checks = [made("a", 1), made("b", 1, noise=0.1), made("c", 2)]
    told = procedure(
        split(checks, Track.DETERMINISTIC), reference_of(checks), runs=5, most_hours=30
    )
    assert "needs 2 blocks" in told["refused"]
