"""What is remembered between windows: enough for late objects, never more than a bound."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.key_hash import key_hash
from quality_lib.exchanges.watermark import (
    MOST_MARKS,
    Watermark,
    advanced,
    seen_entry,
    watermark_from,
)
from quality_lib.exchanges.window import Partition, Window

START = datetime(2026, 11, 29, 22, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def part(hours: float = 0, rate: float = 1.0) -> Partition:
    start = START + hours * HOUR
    return Partition(Window(start, start + HOUR), 0, 1, rate)


def entries(*keys: str) -> list[str]:
    return [seen_entry(key_hash("", key)) for key in keys]


def test_what_was_read_is_not_late() -> None:
    mark = advanced(None, part(), entries("a", "b"), HOUR)
    assert mark.complete_to == START + HOUR
    assert not mark.is_late(key_hash("", "a"))
    assert mark.is_late(key_hash("", "c"))


def test_it_survives_the_state_store() -> None:
    mark = advanced(None, part(rate=0.5), entries(*"abcdefgh"), HOUR)
    assert watermark_from(json.loads(json.dumps(mark.as_dict()))) == mark
    assert watermark_from(None) is None


def test_marks_are_bounded_and_what_is_unknown_is_never_late() -> None:
    keys = [f"key-{i}" for i in range(3 * MOST_MARKS)]
    mark = advanced(None, part(), entries(*keys), HOUR)
    assert len(mark.seen) == MOST_MARKS
    assert len(json.dumps(mark.as_dict())) < 60_000
    assert not any(mark.is_late(key_hash("", key)) for key in keys)
    late = sum(mark.is_late(key_hash("", f"new-{i}")) for i in range(3000))
    assert late == pytest.approx(1000, abs=150)


def test_objects_that_were_not_sampled_are_never_late() -> None:
    keys = [f"key-{i}" for i in range(500)]
    read = [key for key in keys if key_hash("", key).position < 0.25]
    mark = advanced(None, part(rate=0.25), entries(*read), HOUR)
    assert not any(mark.is_late(key_hash("", key)) for key in keys)


def test_the_smaller_rate_holds_while_both_windows_are_looked_back_on() -> None:
    before = Watermark(START, frozenset(), 0.25)
    assert advanced(before, part(), (), 2 * HOUR).seen_rate == 0.25
    assert advanced(before, part(), (), HOUR).seen_rate == 1.0
    assert advanced(before, part(hours=9), (), HOUR).seen_rate == 1.0


@pytest.mark.parametrize(
    "data",
    [
        7,
        {},
        {"complete_to": "x"},
        {"complete_to": START.isoformat(), "seen": [1]},
        {"complete_to": START.isoformat(), "seen_rate": None},
    ],
)
def test_a_damaged_watermark_says_what_to_do(data: Any) -> None:
    with pytest.raises(BadInput, match="delete it"):
        watermark_from(data)
