from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.gates.periodic import (
    closing_run,
    equal_ahead,
    equal_behind,
    runs,
    smallest_period,
)


@pytest.mark.parametrize(
    ("text", "unit", "copies"),
    [
        ("well, " + "abc" * 20, "abc", 20),
        ("!" * 12, "!", 12),
        # Twelve equal signs are one run, not three copies of four.
        ("-" * 12, "-", 12),
        ("the the the the the", " the", 4),
        (
            "a long first sentence. " + "I cannot help with that. " * 5,
            "I cannot help with that. ",
            5,
        ),
    ],
)
def test_the_closing_run_has_the_smallest_unit(text: str, unit: str, copies: int) -> None:
    run = closing_run(text)
    assert run is not None
    assert (len(run.unit), run.copies, run.end) == (len(unit), copies, len(text))
    assert sorted(run.unit) == sorted(unit)


@pytest.mark.parametrize(
    "text", ["", "a", "aa", "abcabc", "The end.", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"]
)
def test_ordinary_endings_hold_no_run(text: str) -> None:
    assert closing_run(text) is None


def test_a_unit_longer_than_allowed_is_not_looked_for() -> None:
    unit = "".join(chr(0x4E00 + n) for n in range(300))
    assert closing_run(unit * 3, max_period=200) is None
    assert closing_run(unit * 3, max_period=300) is not None


def test_a_run_in_the_middle_is_found() -> None:
    head, tail = (
        "It starts like any other text. ",
        " and then it goes on as if nothing had happened.",
    )
    found = list(runs(head + "more water " * 30 + tail))
    assert [(run.unit.strip(), run.copies >= 29) for run in found] == [
        (found[0].unit.strip(), True)
    ]
    assert found[0].start <= len(head) + 11


@pytest.mark.parametrize(("text", "period"), [("abab", 2), ("aaaa", 1), ("abc", 3), ("a", 1)])
def test_smallest_period(text: str, period: int) -> None:
    assert smallest_period(text) == period


pieces = st.text(alphabet="ab ", min_size=1, max_size=12)


@settings(max_examples=200)
@given(head=st.text(alphabet="xyz ", max_size=60), unit=pieces, copies=st.integers(2, 30))
def test_every_long_closing_run_is_found(head: str, unit: str, copies: int) -> None:
    text = head + unit * copies
    run = closing_run(text)
    if len(unit) * copies >= 48:
        assert run is not None
        assert run.length >= len(unit) * copies
    if run is not None:
        stretch = text[run.start : run.end]
        assert (run.unit * (run.copies + 1)).startswith(stretch)


@settings(max_examples=200)
@given(text=st.text(alphabet="ab", min_size=2, max_size=300), data=st.data())
def test_equal_stretches_are_counted_as_one_by_one(text: str, data: st.DataObject) -> None:
    second = data.draw(st.integers(1, len(text) - 1))
    first = data.draw(st.integers(0, second - 1))
    ahead = 0
    while second + ahead < len(text) and text[first + ahead] == text[second + ahead]:
        ahead += 1
    behind = 0
    while first - behind > 0 and text[first - behind - 1] == text[second - behind - 1]:
        behind += 1
    assert (equal_ahead(text, first, second), equal_behind(text, first, second)) == (ahead, behind)
