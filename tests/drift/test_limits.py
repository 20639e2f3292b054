"""Limits that contradict each other are refused by name."""

from __future__ import annotations

import pytest

from quality_lib.drift.limits import DriftLimits, check_loads


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"false_alarms_per_year": 0}, "false_alarms_per_year must be above 0"),
        ({"false_alarms_per_year": 9000}, "below checks_per_year"),
        ({"checks_per_year": -1}, "checks_per_year"),
        ({"endpoints": 0}, "endpoints"),
        ({"calibration_risk": 1.0}, "calibration_risk"),
        ({"min_probe_share": 0.0}, "min_probe_share"),
        ({"min_blocks": 1}, "one is left out"),
        ({"suspicion": 1.0}, "suspicion"),
        ({"most_rechecks": -1}, "most_rechecks"),
        ({"most_recheck_correlation": 1.5}, "most_recheck_correlation"),
        ({"watch_per_year": 0}, "watch_per_year"),
    ],
)
def test_impossible_limits(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DriftLimits(**changes)  # type: ignore[arg-type]


def test_the_defaults() -> None:
    limits = DriftLimits()
    assert (limits.false_alarms_per_year, limits.checks_per_year, limits.endpoints) == (
        0.1,
        8760,
        1,
    )


@pytest.mark.parametrize("loads", [(), (4, 16), (0, 1), (1, 257), (-1, 1)])
def test_loads_without_the_hourly_one_or_beyond_sense(loads: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must hold 1"):
        check_loads(loads)


def test_loads_of_a_calibration() -> None:
    assert check_loads([1, 4, 256]) == (1, 4, 256)
