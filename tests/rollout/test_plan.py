"""The plan says what happens, what it costs, who serves meanwhile; and refuses what cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout.plan import Choices, Costs, backend_name, make_plan
from quality_lib.rollout.ports import Backend
from quality_lib.rollout.strategy import Strategy
from tests.rollout.plans import INCIDENT, plan, table

MEASURED = Costs(start=60.0, validate=120.0, check=5.0, source="measured here before")


def test_the_cost_is_the_sum_of_what_was_measured() -> None:
    made = plan(table(a=100), MEASURED, soak_s=10.0)
    # 60 + 120 to validate, the staging instance is promoted, 5 to check, 4 soaks, 5 to recover.
    assert made.expected_s == 180 + 0 + 5 + 40 + 0 + 5 + 0
    assert made.outage_s == 0.0 and not made.has_outage


def test_what_was_never_measured_is_not_guessed() -> None:
    made = plan()
    assert made.expected_s is None
    assert {step.name: step.expected_s for step in made.steps}["validate"] is None
    assert "nothing has been measured" in made.costs.source


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({}, "2 instances serve now and as many start beside; never fewer than 2"),
        ({"strategy": Strategy.ROLLING}, "2 instances serve now; 1 while one is replaced (floor: 1)"),
    ],
)  # fmt: skip
def test_capacity_is_told(choices: dict[str, Any], told: str) -> None:
    assert told in plan(**choices).capacity


def test_an_outage_is_announced_with_its_length() -> None:
    made = plan(table(a=100), MEASURED, strategy=Strategy.IN_PLACE)
    assert made.has_outage and made.outage_s == 60.0
    assert "outage of about 60 s" in made.headline
    assert "NONE" in made.capacity
    unknown = plan(table(a=100), strategy=Strategy.IN_PLACE)
    assert unknown.outage_s is None and "of unknown length" in unknown.headline


def test_a_skipped_staging_is_said_loudly() -> None:
    validate = plan(staging="skip").steps[0]
    assert "NO staging instance, by choice" in validate.what


@pytest.mark.parametrize(
    ("weights", "choices", "told"),
    [
        ({"a": 100}, {"strategy": Strategy.ROLLING}, "rolling needs several replicas"),
        ({"a": 60, "b": 40}, {"strategy": Strategy.IN_PLACE}, "single replica"),
        ({"a": 60, "b": 40}, {"strategy": Strategy.ROLLING, "min_capacity": 2}, "min_capacity"),
    ],
)
def test_a_strategy_that_does_not_fit_is_refused(
    weights: dict[str, int], choices: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadInput, match=told):
        plan(table(**weights), **choices)


def test_no_candidate_is_refused() -> None:
    with pytest.raises(BadInput, match="no healthy snapshot"):
        make_plan(INCIDENT, table(a=100), [], Choices(), Costs())


@pytest.mark.parametrize(
    "incident", ["chat-abc-0", "Chat Bot (EU)-abc-0", "x" * 200, "-", "ünï-1", "a_b.c-9"]
)
def test_every_incident_gives_names_that_a_proxy_takes(incident: str) -> None:
    names = {backend_name(incident, number) for number in (1, 2, 12)}
    assert len(names) == 3
    for name in names:
        Backend(name, "127.0.0.1:1", 0)
