from __future__ import annotations

import dataclasses

import pytest

from quality_lib.golden.case import GoldenCase, Params

CASE = GoldenCase("a", ({"role": "user", "content": "Hi"},))


@pytest.mark.parametrize(
    ("tags", "axis", "language"),
    [
        ((), "", ""),
        (("axis:qa", "lang:fr"), "qa", "fr"),
        (("alone", "lang:zh", "axis:json"), "json", "zh"),
        (("subaxis:x", "language:y"), "", ""),
    ],
)
def test_axis_and_language_come_from_the_tags(
    tags: tuple[str, ...], axis: str, language: str
) -> None:
    case = dataclasses.replace(CASE, tags=tags)
    assert (case.axis, case.language) == (axis, language)


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (0.01, False), (1.0, False)])
def test_only_temperature_zero_is_greedy(temperature: float, greedy: bool) -> None:
    assert Params(temperature=temperature).is_greedy is greedy


def test_where_a_case_came_from_is_no_part_of_it() -> None:
    assert dataclasses.replace(CASE, source="x.jsonl:3") == CASE
