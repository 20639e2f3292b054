from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_ranges import number_of, parameter_ranges
from quality_lib.records import Outcome

judge = parameter_ranges(ParameterBounds()).judge

USUAL: list[dict[str, Any]] = [
    {},
    {"temperature": 1, "top_p": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0},
    {"temperature": 0},
    {"temperature": 0.0, "top_p": 0.1, "top_k": 1, "min_p": 0.9},
    {"temperature": 0.1},
    {"temperature": 1.2, "top_p": 0.7},
    {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0, "presence_penalty": 1.5},
    {"temperature": 0.7, "repetition_penalty": 1.05, "max_tokens": 4096},
    {"top_k": -1},
    {"top_k": 0},
    {"top_k": 50.0},
    {"max_tokens": 1},
    {"max_completion_tokens": 100_000},
    {"temperature": None, "top_p": None, "max_tokens": None, "stop": None},
    {"seed": 7, "logit_bias": {"5": -100}, "user": "x", "unknown": object()},
    {"temperature": 0.005},
]

NOT_USUAL: list[tuple[str, Any, str, Any]] = [
    ("temperature", 1.5, "parameter_out_of_bounds", 1.2),
    ("temperature", 0.05, "parameter_out_of_bounds", 0.1),
    ("temperature", 2.1, "parameter_impossible", 1.2),
    ("temperature", -0.5, "parameter_impossible", 0.1),
    ("temperature", math.nan, "parameter_wrong_type", None),
    ("temperature", math.inf, "parameter_wrong_type", None),
    ("temperature", True, "parameter_wrong_type", None),
    ("temperature", "hot", "parameter_wrong_type", None),
    ("temperature", [0.7], "parameter_wrong_type", None),
    ("temperature", {"value": 1}, "parameter_wrong_type", None),
    ("temperature", "0.7", "parameter_written_as_text", 0.7),
    ("temperature", "1.9", "parameter_out_of_bounds", 1.2),
    ("top_p", 0.5, "parameter_out_of_bounds", 0.7),
    ("top_p", 0, "parameter_impossible", 0.7),
    ("top_p", 1.01, "parameter_impossible", 1.0),
    ("top_k", -2, "parameter_impossible", 1),
    ("top_k", 1.5, "parameter_wrong_type", None),
    ("top_k", 2_000_000, "parameter_out_of_bounds", 1_000_000),
    ("min_p", 0.8, "parameter_out_of_bounds", 0.5),
    ("min_p", -0.1, "parameter_impossible", 0.0),
    ("presence_penalty", 2, "parameter_out_of_bounds", 1.5),
    ("presence_penalty", -1, "parameter_out_of_bounds", -0.5),
    ("frequency_penalty", 2.5, "parameter_impossible", 1.0),
    ("frequency_penalty", 1.5, "parameter_out_of_bounds", 1.0),
    ("repetition_penalty", 2.0, "parameter_out_of_bounds", 1.3),
    ("repetition_penalty", 0, "parameter_impossible", 0.9),
    ("max_tokens", 0, "parameter_impossible", 1),
    ("max_tokens", -1, "parameter_impossible", 1),
    ("max_tokens", 10**9, "parameter_out_of_bounds", 131_072),
    ("max_tokens", 10**400, "parameter_wrong_type", None),
    ("max_completion_tokens", "100", "parameter_written_as_text", 100),
    ("n", 0, "parameter_impossible", 1),
    ("n", 64, "parameter_out_of_bounds", 16),
]


@pytest.mark.parametrize("params", USUAL, ids=str)
def test_usual_parameters_pass(params: dict[str, Any]) -> None:
    assert judge(Exchange(params=params)).outcome is Outcome.PASSED


@pytest.mark.parametrize(("name", "value", "reason", "after"), NOT_USUAL)
def test_others_are_told_with_what_to_send(name: str, value: Any, reason: str, after: Any) -> None:
    verdict = judge(Exchange(params={name: value}))
    assert verdict.reason == reason
    suspects = {"parameter_out_of_bounds", "parameter_written_as_text"}
    assert verdict.outcome is (Outcome.SUSPECT if reason in suspects else Outcome.FAILED)
    (finding,) = verdict.evidence["findings"]
    assert (finding["parameter"], finding["after"]) == (name, after)
    assert type(finding["after"]) is type(after)
    assert name in verdict.sentence


def test_the_worst_finding_speaks_and_all_are_evidence() -> None:
    verdict = judge(Exchange(params={"top_p": 0.5, "temperature": 9, "n": 1}))
    assert verdict.reason == "parameter_impossible"
    assert [finding["parameter"] for finding in verdict.evidence["findings"]] == [
        "top_p",
        "temperature",
    ]


def test_bounds_come_from_the_configuration() -> None:
    wide = parameter_ranges(ParameterBounds(temperature=(0.0, 2.0), top_p=(0.05, 1.0))).judge
    assert wide(Exchange(params={"temperature": 1.9, "top_p": 0.1})).outcome is Outcome.PASSED


def test_bounds_wider_than_possible_change_nothing_about_the_impossible() -> None:
    wild = parameter_ranges(ParameterBounds(temperature=(-5, 50))).judge
    assert wild(Exchange(params={"temperature": 3})).reason == "parameter_impossible"


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), ("2.5", 2.5), (True, None), (None, None), ("nan", None), ("", None), ([], None)],
)
def test_numbers(value: Any, number: float | None) -> None:
    assert number_of(value) == number


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(["temperature", "top_p", "top_k", "n", "max_tokens"]), ANYTHING)
)
def test_no_value_makes_it_crash(params: dict[str, Any]) -> None:
    assert judge(Exchange(params=params)).reason
