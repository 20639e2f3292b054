"""When an alert is told, as a table of results over the hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from quality_airflow.alerting import Standing, Step, advance, delivered

START = datetime(2026, 3, 1, tzinfo=UTC)


def story(conditions: str, *, arrives: bool = True) -> list[Step]:
    """One letter an hour: g good, b bad, w worse (bad with another detail), n no data."""
    meaning = {"g": ("good", ""), "b": ("bad", ""), "w": ("bad", "worse"), "n": ("no_data", "")}
    standing, steps = None, []
    for hour, letter in enumerate(conditions):
        at = START + timedelta(hours=hour)
        steps.append(advance(standing, *meaning[letter], at))
        standing = steps[-1].standing
        if steps[-1].tell and arrives:
            standing = delivered(standing, at)
        standing = Standing.read(standing.plain())
    return steps


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ("ggg", "..."),
        ("gbbg", ".!.r"),
        ("bbbbbbbg", "!.....ar"),
        ("bwb", "!!!"),
        ("bngg", "!!r."),
        ("nng", "!.r"),
    ],
)
def test_told_on_change_after_six_hours_and_on_recovery(conditions: str, told: str) -> None:
    def letter(step: Step) -> str:
        if not step.tell:
            return "."
        return "r" if step.recovered else "a" if step.reminder else "!"

    assert "".join(map(letter, story(conditions))) == told


def test_what_did_not_arrive_is_told_again_the_recovery_too() -> None:
    assert [step.tell for step in story("bbgg", arrives=False)] == [True] * 4


def test_a_recovery_knows_when_the_trouble_began() -> None:
    assert story("gbng")[-1].standing.trouble_since == (START + timedelta(hours=1)).isoformat()


@pytest.mark.parametrize(
    "stored", [None, "x", {}, {"condition": "bad"}, {"condition": "b", "detail": "", "since": "?"}]
)
def test_an_unreadable_memory_is_no_memory(stored: object) -> None:
    assert Standing.read(stored) is None
