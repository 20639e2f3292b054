from __future__ import annotations

from collections.abc import Sequence

import pytest

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_scope import input_scope

LIMITS = InputLimits(scope_examples=("refund", "delivery"), scope_foreign=("poem",))


def shared_letters(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
    return [len(set(a) & set(b)) / max(1, len(set(a) | set(b))) for a, b in pairs]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("refund", "input_in_scope"),
        ("poem", "input_out_of_scope"),
        ("xyz", "input_out_of_scope"),
        ("", "input_scope_unjudged"),
    ],
)
def test_the_nearest_example_decides(text: str, reason: str) -> None:
    assert input_scope(LIMITS, shared_letters).judge(Exchange(prompt=text)).reason == reason


def test_real_embeddings_tell_a_support_question_from_a_poem() -> None:
    from quality_lib.adapters.model.cached_similarity import CachedSimilarity

    limits = InputLimits(
        scope_examples=("Where is my parcel?", "I want my money back for a broken lamp."),
        scope_foreign=("Write a poem about the sea.",),
    )
    gate = input_scope(limits, CachedSimilarity())
    asked = {
        "My package has not arrived yet.": "input_in_scope",
        "Compose verses on waves and the ocean.": "input_out_of_scope",
        "How many moons does Jupiter have?": "input_out_of_scope",
    }
    assert {text: gate.judge(Exchange(prompt=text)).reason for text in asked} == asked
