from datetime import UTC, datetime

import pytest

from quality_lib.adapters.pages.trend_axis import positions, round_times


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("first", "last", "ticks"),
    [
        ("2026-03-14T08:30", "2026-03-14T12:10", ["09:00", "10:00", "11:00", "12:00"]),
        ("2026-03-14T08:30", "2026-03-15T08:30", ["12:00", "18:00", "00:00", "06:00"]),
        ("2026-03-14T08:30", "2026-03-14T08:30", ["08:30"]),
        ("2026-03-14T08:30", "2026-03-14T08:32", ["08:30", "08:31", "08:32"]),
    ],
)
def test_labels_stand_at_round_times(first: str, last: str, ticks: list[str]) -> None:
    seconds = round_times(at(first), at(last), 5)
    assert [f"{datetime.fromtimestamp(s, UTC):%H:%M}" for s in seconds] == ticks


@pytest.mark.parametrize("hours", [0.1, 1, 5, 30, 168, 1000, 9000, 200_000])
def test_any_span_has_some_labels_and_not_too_many(hours: float) -> None:
    start = at("2026-03-14T08:17")
    assert 1 <= len(round_times(start, start + hours * 3600, 5)) <= 6


def test_a_zone_is_respected_and_an_odd_time_falls_back_to_the_order() -> None:
    assert positions(["2026-03-14T09:00:00+01:00"]) == positions(["2026-03-14T08:00:00"])
    assert positions(["2026-03-14T09:00:00", "soon"]) == ([0.0, 1.0], False)
