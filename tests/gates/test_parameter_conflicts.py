from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_conflicts import parameter_conflicts
from quality_lib.records import Outcome

judge = parameter_conflicts(ParameterBounds()).judge
JSON = {"type": "json_schema", "json_schema": {}}

CASES: dict[str, tuple[dict[str, Any], Any, Outcome, str]] = {
    "nothing": ({}, None, Outcome.PASSED, "parameters_agree"),
    "greedy": ({"temperature": 0}, None, Outcome.PASSED, "parameters_agree"),
    "greedy with neutral values": (
        {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "n": 1}, None, Outcome.PASSED, "parameters_agree",
    ),
    "greedy with top_p": (
        {"temperature": 0, "top_p": 0.9}, None, Outcome.PASSED, "parameter_ignored_by_greedy",
    ),
    "tiny": ({"temperature": 1e-5}, None, Outcome.SUSPECT, "parameter_tiny_temperature"),
    "tiny with top_p": (
        {"temperature": 1e-6, "top_p": 0.9}, None, Outcome.SUSPECT, "parameter_tiny_temperature",
    ),
    "low but possible": ({"temperature": 0.01}, None, Outcome.PASSED, "parameters_agree"),
    "negative is not greedy": ({"temperature": -1, "n": 2}, None, Outcome.PASSED, "parameters_agree"),
    "greedy choices": ({"temperature": 0, "n": 3}, None, Outcome.FAILED, "parameter_greedy_choices"),
    "sampled choices": ({"temperature": 1, "n": 3}, None, Outcome.PASSED, "parameters_agree"),
    "choices of the default temperature": ({"n": 3}, None, Outcome.PASSED, "parameters_agree"),
    "repetition penalty on JSON": (
        {"repetition_penalty": 1.2}, JSON, Outcome.SUSPECT, "parameter_penalty_on_structure",
    ),
    "frequency penalty on JSON": (
        {"frequency_penalty": 0.5}, {"type": "json_object"}, Outcome.SUSPECT, "parameter_penalty_on_structure",
    ),
    "on a grammar": (
        {"repetition_penalty": 1.2, "structured_outputs": {"regex": "a+"}}, None, Outcome.SUSPECT,
        "parameter_penalty_on_structure",
    ),
    "a mild penalty on JSON": ({"repetition_penalty": 1.05}, JSON, Outcome.PASSED, "parameters_agree"),
    "a penalty on text": (
        {"repetition_penalty": 1.2}, {"type": "text"}, Outcome.PASSED, "parameters_agree",
    ),
    "least above most": (
        {"min_tokens": 10, "max_tokens": 5}, None, Outcome.FAILED, "parameter_min_above_max",
    ),
    "least and most": ({"min_tokens": 5, "max_tokens": 5}, None, Outcome.PASSED, "parameters_agree"),
    "least without most": ({"min_tokens": 5}, None, Outcome.PASSED, "parameters_agree"),
    "stops": ({"stop": ["\n\n", "END"]}, None, Outcome.PASSED, "parameters_agree"),
    "one stop": ({"stop": "END"}, None, Outcome.PASSED, "parameters_agree"),
    "no stops": ({"stop": []}, None, Outcome.PASSED, "parameters_agree"),
    "empty stop": ({"stop": ["END", ""]}, None, Outcome.FAILED, "parameter_empty_stop"),
    "stop of another type": ({"stop": 5}, None, Outcome.FAILED, "parameter_empty_stop"),
    "end ignored": ({"ignore_eos": True}, None, Outcome.SUSPECT, "parameter_end_ignored"),
    "end not ignored": ({"ignore_eos": False}, None, Outcome.PASSED, "parameters_agree"),
    "no numbers": (
        {"temperature": "hot", "n": [], "top_p": {}, "min_tokens": "x"}, JSON, Outcome.PASSED, "parameters_agree",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("params", "response_format", "outcome", "reason"), CASES.values(), ids=CASES
)
def test_conflicts(
    params: dict[str, Any], response_format: Any, outcome: Outcome, reason: str
) -> None:
    verdict = judge(Exchange(params=params, response_format=response_format))
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
