from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import judge
from quality_lib.gates.level_parameters import parameter_gates
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_finding import RequestContext, context_of
from quality_lib.gates.parameters import adjust
from quality_lib.records import Outcome

BOUNDS = ParameterBounds()
JSON = RequestContext(has_structure=True)

ADJUSTED: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({"temperature": 0.7, "seed": 3, "x": [1]}, {"temperature": 0.7, "seed": 3, "x": [1]}, []),
    ({"temperature": None}, {"temperature": None}, []),
    ({"temperature": 1.5}, {"temperature": 1.2}, ["parameter_out_of_bounds"]),
    ({"temperature": 1e-5}, {"temperature": 0.0}, ["parameter_tiny_temperature"]),
    ({"temperature": 0, "top_p": 0.5}, {"temperature": 0}, ["parameter_ignored_by_greedy"]),
    (
        {"temperature": 0, "n": 4},
        {"temperature": 0, "n": 1},
        ["parameter_greedy_choices"],
    ),
    ({"temperature": math.nan, "n": 2}, {"n": 2}, ["parameter_wrong_type"]),
    ({"temperature": "0.7"}, {"temperature": 0.7}, ["parameter_written_as_text"]),
    ({"stop": ["", "a"]}, {"stop": ["a"]}, ["parameter_empty_stop"]),
    ({"stop": ""}, {}, ["parameter_empty_stop"]),
    ({"min_tokens": 9, "max_tokens": 5}, {"min_tokens": 5, "max_tokens": 5}, ["parameter_min_above_max"]),
]  # fmt: skip


@pytest.mark.parametrize(("params", "adjusted", "reasons"), ADJUSTED)
def test_adjusting(params: dict[str, Any], adjusted: dict[str, Any], reasons: list[str]) -> None:
    before = dict(params)
    result = adjust(params, BOUNDS)
    assert result.params == adjusted
    assert [change.reason for change in result.changes] == reasons
    assert params == before


def test_structure_takes_penalties_away() -> None:
    params = {"repetition_penalty": 1.25, "frequency_penalty": 0.4, "presence_penalty": 0.4}
    assert adjust(params, BOUNDS, JSON).params == {
        "repetition_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.4,
    }


def test_only_harmful_changes_are_refused() -> None:
    result = adjust({"temperature": 0, "top_p": 0.5, "max_tokens": 0}, BOUNDS)
    assert [change.name for change in result.refusable] == ["max_tokens"]


@pytest.mark.parametrize(
    ("params", "context", "adjusted"),
    [
        ({"temperature": 1}, JSON, {"temperature": 0.3}),
        ({}, RequestContext(asks_for_code=True), {"temperature": 0.3}),
        ({"temperature": 0.2}, JSON, {"temperature": 0.2}),
        ({"temperature": 0}, JSON, {"temperature": 0}),
        ({"temperature": 1}, RequestContext(), {"temperature": 1}),
    ],
)
def test_code_and_json_are_cooled_where_that_is_switched_on(
    params: dict[str, Any], context: RequestContext, adjusted: dict[str, Any]
) -> None:
    assert adjust(params, ParameterBounds(context_temperature=0.3), context).params == adjusted
    assert adjust(params, BOUNDS, context).params == params


@pytest.mark.parametrize(
    ("text", "is_code"),
    [
        ("Write a function that sorts a list", True),
        ("Fix this:\n```\nx = 1\n```", True),
        ("How do I do this in Python?", True),
        ("Write a poem about spring", False),
        ("The script of the film was good", False),
    ],
)
def test_code_is_known_by_its_words(text: str, is_code: bool) -> None:
    assert context_of(Exchange(prompt=text)).asks_for_code is is_code


VALUES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
)
NAMES = st.sampled_from([
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "max_tokens", "max_completion_tokens", "min_tokens", "n", "stop", "ignore_eos",
])  # fmt: skip


@given(st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=2)), st.booleans())
def test_what_was_adjusted_needs_no_adjusting(params: dict[str, Any], has_structure: bool) -> None:
    context = RequestContext(has_structure=has_structure)
    once = adjust(params, BOUNDS, context)
    again = adjust(once.params, BOUNDS, context)
    assert [change for change in again.changes if change.outcome is Outcome.FAILED] == []
    assert again.params == adjust(again.params, BOUNDS, context).params


def test_the_adjusted_parameters_satisfy_the_gates() -> None:
    params = {"temperature": 1.7, "top_p": 0.2, "repetition_penalty": 3, "n": 99}
    exchange = Exchange(params=adjust(params, BOUNDS).params)
    assert judge(exchange, parameter_gates(BOUNDS)).outcome is Outcome.PASSED
