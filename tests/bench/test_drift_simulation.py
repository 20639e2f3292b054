"""The simulation of the drift decision: its parts by hand, and a short run of the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench import drift_simulation as simulation
from bench.drift_health import HIT, NAMES, PROBES, Health, calibrated, of_probes, table
from bench.drift_simulation import (
    Trial,
    delays,
    false_alarms,
    percentile,
    poisson_interval,
)
from bench.drift_watching import watch_over
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.sequential import Rechecks


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("count", "low", "high"), [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.39)]
)
def test_the_interval_of_a_count(count: int, low: float, high: float) -> None:
    assert poisson_interval(count) == pytest.approx((low, high), rel=1e-3)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([1, 2, 3, 4, 100], 50) == 3
    assert percentile([1, 2, 3, 4, 100], 90) == 100


def test_statistics_of_probes_by_hand() -> None:
    z = np.zeros((1, PROBES))
    z[0, 3] = HIT
    found = of_probes(z, rng())[0]
    assert found[:3].tolist() == pytest.approx([HIT / 4, HIT, HIT / 4])


@pytest.mark.parametrize("icc", [0.0, 0.5])
def test_blocks_share_what_they_were_told_to(icc: float) -> None:
    drawn = Health(block_icc=icc).checks(rng(), 200, 50)[:, 3].reshape(200, 50)
    assert drawn.mean(1).var() == pytest.approx(icc + (1 - icc) / 50, abs=0.12)


def test_re_checks_are_as_correlated_as_they_were_told_to() -> None:
    health = Health(recheck_correlation=0.7)
    first = health.checks(rng(), 1, 3000)
    draw = rng(2)
    again = np.asarray([health.recheck(draw, check, np.zeros(len(NAMES))) for check in first])
    assert np.corrcoef(first[:, 0], again[:, 0])[0, 1] == pytest.approx(0.7, abs=0.05)


def test_e_values_come_from_the_product() -> None:
    judge = calibrated(rng(), Health(), checks=200)
    far, near = judge.e_values(np.vstack([np.full(5, 99.0), np.full(5, -99.0)]))
    assert far == pytest.approx(table("rank", 200)[0])
    assert near == pytest.approx(table("rank", 200)[-1])


def test_a_gross_fault_is_told_in_its_second_check() -> None:
    judge = calibrated(rng(), Health(), checks=200)
    checks = np.vstack([np.zeros((5, 5)), np.full((3, 5), 99.0)])
    told = watch_over(
        judge, checks, Rechecks.WAIT, DriftLimits(), lambda hour: np.zeros(5), stop_after=5
    )
    assert told.alarms == [6]


def test_the_tables_of_a_short_run() -> None:
    quiet = false_alarms(Trial("short", checks=200), 1, rng())
    assert (quiet["alarms"], quiet["per_year"]) == (0, 0.0)
    assert quiet["interval_per_year"][1] == pytest.approx(3.689, abs=0.01)
    row = delays("4 sigma", 5, rng(), Health(), 4.0, 0.0, Rechecks.MULTIPLY, "rank")
    assert 1 <= row["p50"] <= row["p90"] < 20
    assert row["not_told"] == 0


def test_every_healthy_kind_has_a_name_of_its_own() -> None:
    names = [trial.name for trial in simulation.TRIALS]
    assert len(set(names)) == len(names)
    assert math.isfinite(simulation.MOST_HOURS)
