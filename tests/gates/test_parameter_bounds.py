from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from pydantic import ValidationError

from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.settings import GateSettings


def test_the_promised_defaults() -> None:
    bounds = asdict(ParameterBounds())
    assert (bounds["mode"], bounds["temperature"], bounds["top_p"]) == (
        "observe",
        (0.1, 1.2),
        (0.7, 1.0),
    )
    assert bounds["context_temperature"] is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"temperature": [1.0, 0.5]}, "low <= high"),
        ({"top_p": [0.5]}, "top_p"),
        ({"top_k": [1, float("inf")]}, "top_k"),
        ({"mode": "shout"}, "mode"),
        ({"greedy_below": 0.5}, "greedy_below"),
        ({"context_temperature": 3}, "context_temperature"),
        ({"topp": [0, 1]}, "topp"),
    ],
)
def test_a_wrong_bound_is_refused_with_its_name(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        GateSettings.model_validate({"parameters": fields})
