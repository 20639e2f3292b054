from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from quality_lib.gates.input_limits import InputLimits, InputRule
from quality_lib.settings import GateSettings


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"max_characters": 0}, "max_characters"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_symbols": 0}, "min_symbols"),
        ({"truncation_tokens": -1}, "truncation_tokens"),
        ({"truncation_share": 1.5}, "truncation_share"),
        ({"max_control_share": -0.1}, "max_control_share"),
        ({"rule_timeout_s": 0}, "rule_timeout_s"),
        ({"deny": [" "]}, "empty phrase"),
        ({"scope_foreign": ["x"]}, "scope_examples"),
        ({"rules": [{"name": "x", "pattern": "["}]}, "no regular expression"),
        ({"rules": [{"name": "x", "pattern": "a", "outcome": "PASSED"}]}, "outcome"),
        ({"max_charcters": 5}, "max_charcters"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_name(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        GateSettings.model_validate({"input": fields})


def test_rules_are_read_from_the_configuration() -> None:
    settings = GateSettings.model_validate({"input": {"rules": [{"name": "x", "pattern": "a"}]}})
    assert settings.input.rules == (InputRule("x", "a"),)
    assert GateSettings().input == InputLimits()
