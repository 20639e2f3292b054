"""Windows, their partitions and the layout of an hour."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.key_hash import key_hash
from quality_lib.exchanges.layout import LITELLM, check_layout, prefixes
from quality_lib.exchanges.log_limits import ReadLimits, SampleLimits
from quality_lib.exchanges.window import (
    Listing,
    Partition,
    Window,
    next_window,
    partition_from,
    partitions,
    window_from,
)

START = datetime(2026, 11, 29, 22, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = Window(START, START + HOUR)


def test_windows_that_follow_each_other_share_no_moment() -> None:
    after = Window(WINDOW.end, WINDOW.end + HOUR)
    for moment in (START, WINDOW.end, WINDOW.end - timedelta(microseconds=1)):
        assert WINDOW.holds(moment) != after.holds(moment)


@pytest.mark.parametrize(
    ("start", "end"),
    [(START, START), (START + HOUR, START), (START.replace(tzinfo=None), START)],
)
def test_a_window_must_make_sense(start: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match="window"):
        Window(start, end)


@pytest.mark.parametrize("count", [1, 2, 7, 256])
def test_partitions_are_disjoint_and_complete(count: int) -> None:
    parts = partitions(WINDOW, Listing(100, 1), count, SampleLimits())
    assert [p.index for p in parts] == list(range(count))
    belongs = [key_hash("", f"key-{i}").partition(count) for i in range(2000)]
    assert set(belongs) <= {p.index for p in parts}
    largest = max(belongs.count(p.index) for p in parts)
    assert largest < 2000 / count + 6 * (2000 / count) ** 0.5 + 1


@pytest.mark.parametrize(
    ("objects", "size", "rate"),
    [(0, 0, 1.0), (5000, 1, 1.0), (10_000, 1, 0.5), (10, 8 << 30, 0.5), (20_000, 16 << 30, 0.25)],
)
def test_the_rate_keeps_to_the_limits(objects: int, size: int, rate: float) -> None:
    (part,) = partitions(WINDOW, Listing(objects, size), 1, SampleLimits())
    assert part.key_rate == pytest.approx(rate)


def test_a_partition_travels_as_small_json() -> None:
    (_, part) = partitions(WINDOW, Listing(300_000, 1), 2, SampleLimits())
    text = json.dumps(part.as_dict())
    assert len(text) < 200
    assert partition_from(json.loads(text)) == part
    assert window_from(WINDOW.as_dict()) == WINDOW


@pytest.mark.parametrize(
    "change",
    [
        {"index": 2},
        {"count": 0},
        {"key_rate": 0},
        {"key_rate": "1"},
        {"start": "soon"},
        {"end": None},
    ],
)
def test_a_damaged_partition_is_bad_input(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        partition_from({**Partition(WINDOW, 0, 2, 1.0).as_dict(), **change})
    with pytest.raises(BadInput):
        partition_from([change])


@pytest.mark.parametrize(
    ("complete_to", "now", "expected"),
    [
        (None, START + timedelta(minutes=13), (START, START + timedelta(minutes=10))),
        (START, START + timedelta(minutes=13), (START, START + timedelta(minutes=10))),
        (START, START + timedelta(minutes=11), None),
        (START, START + timedelta(minutes=43), (START, START + timedelta(minutes=40))),
        (START - timedelta(days=3), START + timedelta(minutes=2), (START - HOUR, START)),
        (START + HOUR, START, None),
    ],
)
def test_the_window_that_is_due(
    complete_to: datetime | None, now: datetime, expected: tuple[datetime, datetime] | None
) -> None:
    found = next_window(
        complete_to, now, length=timedelta(minutes=10), settle=timedelta(minutes=2), longest=HOUR
    )
    assert found == (Window(*expected) if expected else None)


def test_hours_of_a_window_with_its_look_back_over_midnight() -> None:
    window = Window(START + timedelta(hours=2, minutes=5), START + timedelta(hours=2, minutes=15))
    assert prefixes(("%Y-%m-%d/%H/",), window, HOUR) == ("2026-11-29/23/", "2026-11-30/00/")
    assert prefixes(("dt=%Y%m%d/",), window, HOUR) == ("dt=20261129/", "dt=20261130/")


@pytest.mark.parametrize(
    ("layouts", "found"),
    [((), ("",)), (("", "%Y-%m-%d/"), ("",)), (("logs/",), ("logs/",))],
)
def test_no_prefix_lies_inside_another(layouts: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert prefixes(layouts, WINDOW, HOUR) == found


def test_the_clock_of_the_keys_may_be_another() -> None:
    window = Window(START, START + HOUR)
    assert prefixes(("%H/",), window, timedelta(), timedelta(hours=2)) == ("00/",)
    berlin = Window(*(t.astimezone(timezone(HOUR)) for t in (window.start, window.end)))
    assert prefixes(("%H/",), berlin, timedelta()) == ("22/",)


def test_what_litellm_writes_is_found() -> None:
    found = prefixes(LITELLM, WINDOW, timedelta())
    for key in ("2026-11-29/22/time-22-01-02-3_x.json", "2026-11-29/time-22-59-1_x.json", "2026-11-29/batch_22-01-01_x.jsonl"):  # fmt: skip
        assert key.startswith(found)
    assert not "2026-11-29/time-21-01-02-3_x.json".startswith(found)


@pytest.mark.parametrize(
    "layout", ["%H/", "%Y-%d/", "%Y-%m-%d/%M/", "%", "/a/", "../%Y/", "a/../b"]
)
def test_a_layout_that_finds_the_wrong_hour(layout: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        check_layout(layout)


@pytest.mark.parametrize("layout", ["", "logs/", "%Y/%m/%d/%H/", "dt=%Y-%m-%d/", "%Y"])
def test_layouts_that_are_right(layout: str) -> None:
    assert check_layout(layout) == layout


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (SampleLimits, {"max_rows": 0}),
        (SampleLimits, {"max_objects": 0}),
        (SampleLimits, {"min_per_stratum": -1}),
        (SampleLimits, {"max_read_mb": 0}),
        (ReadLimits, {"lookback_minutes": -1}),
        (ReadLimits, {"max_bad_share": 1.1}),
        (ReadLimits, {"max_redacted_share": -0.1}),
        (ReadLimits, {"max_entry_mb": 0}),
        (ReadLimits, {"max_age_hours": 0}),
    ],
)
def test_limits_must_make_sense(kind: Any, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        kind(**change)
