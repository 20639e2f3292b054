from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quality_lib.records import Summary, Tri
from quality_lib.snapshots.eligibility import HealthRecord, is_eligible

NOW = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)


def run(
    hours_ago: float,
    summary: Summary = Summary.HEALTHY,
    changed: Tri = Tri.NO,
    key: str = "now",
) -> HealthRecord:
    return HealthRecord(NOW - timedelta(hours=hours_ago), summary, changed, key)


def hourly(start: int, end: int = 0) -> list[HealthRecord]:
    return [run(h) for h in range(end, start + 1)]


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([], "no golden run"),
        (hourly(23), "healthy for 23.0 of 24 hours: older golden runs do not exist"),
        ([run(30)], "no golden run for 30.0 hours"),
        (hourly(30, 3), "no golden run for 3.0 hours"),
        ([*hourly(10), *hourly(40, 13)], "healthy for 10.0 of 24 hours: no golden run for 3.0"),
        ([run(0, Summary.DEGRADED), *hourly(40, 1)], "was degraded"),
        ([*hourly(10), run(11, Summary.FAILED), *hourly(40, 12)], "was failed"),
        ([*hourly(10), run(11, Summary.INCONCLUSIVE), *hourly(40, 12)], "was inconclusive"),
        ([*hourly(10), run(11, changed=Tri.YES), *hourly(40, 12)], "found a changed model"),
        ([*hourly(10), run(11, changed=Tri.UNKNOWN), *hourly(40, 12)], "could not tell"),
        ([*hourly(10), run(11, key="before"), *hourly(40, 12)], "another deployment"),
        ([run(-1), *hourly(40)], "future"),
    ],
)
def test_not_eligible(history: list[HealthRecord], reason: str) -> None:
    answer = is_eligible(history, now=NOW, stable_hours=24)
    assert not answer.eligible
    assert reason in answer.reason


@pytest.mark.parametrize(
    "history",
    [
        hourly(24),
        list(reversed(hourly(24))),
        [*hourly(24), run(25, Summary.FAILED)],
        [run(h) for h in range(0, 25, 2)],
    ],
)
def test_eligible(history: list[HealthRecord]) -> None:
    assert is_eligible(history, now=NOW, stable_hours=24).eligible


def test_a_registered_deployment_is_not_registered_again() -> None:
    answer = is_eligible(hourly(40), now=NOW, stable_hours=24, already_registered={"now"})
    assert (answer.eligible, answer.reason) == (False, "this deployment is registered already")


def test_no_waiting_still_needs_a_healthy_run() -> None:
    assert is_eligible([run(0.5)], now=NOW, stable_hours=0).eligible
    assert not is_eligible([run(0.5, Summary.FAILED)], now=NOW, stable_hours=0).eligible
    assert not is_eligible([], now=NOW, stable_hours=0).eligible
