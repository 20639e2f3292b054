"""What the deep pass asks of the real reference model and the real embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import judge
from quality_lib.jobs import deep_scoring
from quality_lib.settings import Settings
from tests.gates.answers import answer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
QUESTION = "How do vaccines protect us?"
RIGHT = "They show the immune system a harmless part of the germ, so that it can fight the real one later."
BESIDE = "The meeting with the architect has been moved to Thursday at three in the small room."


@pytest.mark.parametrize(
    ("scoring", "disabled", "expected"),
    [
        (
            {},
            [],
            [
                ["coherence_ok", "unfinished_ok", "relevance_ok"],
                ["coherence_ok", "unfinished_ok", "beside_the_question"],
            ],
        ),
        ({"embeddings": False}, [], [["coherence_ok", "unfinished_ok"]] * 2),
        ({}, ["relevance", "unfinished"], [["coherence_ok"]] * 2),
        ({}, ["coherence", "unfinished"], [["relevance_ok"], ["beside_the_question"]]),
    ],
)
def test_gates_that_are_on_say_what_they_read(
    model_folder: Path, scoring: dict[str, Any], disabled: list[str], expected: list[list[str]]
) -> None:
    settings = Settings.model_validate({
        "services": {
            "chat": {
                "endpoint": "http://127.0.0.1:9",
                "model": "m",
                "weights": "w",
                "scoring": {"reference_model": str(model_folder), **scoring},
                "gates": {"disabled": disabled},
            }
        }
    })
    exchanges = [answer(RIGHT, QUESTION), answer(BESIDE, QUESTION)]
    gates = deep_scoring.reference_gates(
        settings,
        settings.service("chat"),
        exchanges,
        LearnedBounds(),
        lambda stage, done, total: None,
        lambda text: None,
    )
    said = [[one.verdict.reason for one in judge(each, gates).gates] for each in exchanges]
    assert said == expected
