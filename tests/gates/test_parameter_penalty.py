from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_penalty import parameter_penalty
from quality_lib.records import Outcome

judge = parameter_penalty(ParameterBounds()).judge


@pytest.mark.parametrize(
    ("penalty", "tokens", "is_suspect"),
    [
        (None, 5000, False),
        (0, 5000, False),
        (-1, 5000, False),
        ("much", 5000, False),
        (0.1, 1000, False),
        (0.3, 300, False),
        (0.3, 800, False),
        (0.3, 900, True),
        (0.5, 400, False),
        (1.0, 400, True),
        (0.3, None, False),
    ],
)
def test_a_penalty_adds_up_over_the_answer(
    penalty: Any, tokens: int | None, is_suspect: bool
) -> None:
    exchange = Exchange(
        params={"frequency_penalty": penalty}, answer=Answer("x"), completion_tokens=tokens
    )
    outcome = judge(exchange).outcome
    assert outcome is (Outcome.SUSPECT if is_suspect else Outcome.PASSED)


@pytest.mark.parametrize(
    ("params", "is_suspect"),
    [
        ({"frequency_penalty": 0.3}, False),
        ({"frequency_penalty": 0.3, "max_tokens": 1024}, False),
        ({"frequency_penalty": 0.3, "max_tokens": 4096}, True),
        ({"frequency_penalty": 0.3, "max_completion_tokens": 4096}, True),
        ({"frequency_penalty": 0.1, "max_tokens": 4096}, False),
        ({"presence_penalty": 1.0, "max_tokens": 4096}, False),
    ],
)
def test_of_a_request_the_limit_tells_the_length(params: dict[str, Any], is_suspect: bool) -> None:
    outcome = judge(Exchange(params=params)).outcome
    assert outcome is (Outcome.SUSPECT if is_suspect else Outcome.PASSED)
