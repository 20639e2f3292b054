from __future__ import annotations

from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.confidence import confidence, windowed_means
from quality_lib.gates.output_limits import OutputLimits
from tests.gates.answers import PROSE, answer

LEARNED = LearnedBounds(
    window=4,
    mean_logprob=Range(-2.0, -0.01),
    mean_entropy=Range(0.05, 3.0),
    answers=100,
)


def own(**fields: Any) -> Exchange:
    return answer(PROSE, **fields)


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (own(logprobs=(-0.5,) * 12), "confidence_ok"),
        (own(logprobs=(-0.5,) * 8 + (-6.0,) * 4), "logprob_low"),
        (own(logprobs=(-0.5,) * 8 + (-0.001,) * 4), "logprob_high"),
        (own(logprobs=(-0.5,) * 8 + (-6.0,) * 2), "logprob_low"),
        (own(logprobs=(-9.0,) * 3), "confidence_ok"),
        (own(entropies=(1.0,) * 8 + (5.0,) * 4), "entropy_high"),
        (own(entropies=(1.0,) * 8 + (0.001,) * 4), "entropy_low"),
        (own(nan_logits=1), "nan_logits"),
        (own(), "confidence_unknown"),
        (
            own(logprobs=(-0.001,) * 12, response_format={"type": "json_object"}),
            "confidence_ok",
        ),
    ],
)
def test_the_server_s_own_numbers_are_judged_from_both_sides(
    exchange: Exchange, reason: str
) -> None:
    gate = confidence(OutputLimits(), LEARNED, shared_view())
    assert gate.judge(exchange).reason == reason


def test_copies_that_were_asked_for_come_without_doubt() -> None:
    gate = confidence(OutputLimits(), LEARNED, shared_view())
    sure = answer("ha " * 12, "Repeat ha 12 times.", logprobs=(-0.001,) * 12)
    assert gate.judge(sure).reason == "confidence_ok"


def test_constants_say_that_they_are_constants() -> None:
    gate = confidence(OutputLimits(), LearnedBounds(), shared_view())
    verdict = gate.judge(own(logprobs=(-6.0,) * 40))
    assert (verdict.reason, verdict.evidence["bound"]) == ("logprob_low", "constant")
    assert gate.judge(own(logprobs=(-0.00001,) * 40)).reason == "confidence_ok"


@pytest.mark.parametrize(
    ("values", "window", "means"),
    [
        ((), 2, []),
        ((1.0,), 2, []),
        ((1.0, 3.0), 2, [2.0]),
        ((1.0, 3.0, 5.0), 2, [2.0, 4.0]),
        ((1.0,), 0, []),
    ],
)
def test_windowed_means(values: tuple[float, ...], window: int, means: list[float]) -> None:
    assert windowed_means(values, window) == means
