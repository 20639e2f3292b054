from __future__ import annotations

from collections.abc import Sequence

import pytest

from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.keywords import keywords
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.recent_answers import cosine, jaccard, recent_meaning, recent_words
from tests.gates.answers import MORE, PROSE, answer

RIVERS = (PROSE, PROSE + "It is long.", "In short: " + PROSE)
OTHER = "Our parcel service collects letters every weekday and delivers before noon without any extra charge."


@pytest.mark.parametrize(
    ("text", "recent", "reason"),
    [
        (PROSE, RIVERS, "recent_words_ok"),
        (OTHER, RIVERS, "unlike_recent_words"),
        # Answers that always differ say nothing of one more that does.
        (OTHER, (PROSE, MORE, "Completely unrelated sentence number three, with nothing shared."), "recent_words_ok"),
        ("Yes.", RIVERS, "recent_words_ok"),
        (PROSE, RIVERS[:1], "recent_words_unknown"),
        (PROSE, ("", " "), "recent_words_unknown"),
    ],
)  # fmt: skip
def test_words_in_common_with_recent_answers(
    text: str, recent: tuple[str, ...], reason: str
) -> None:
    gate = recent_words(OutputLimits(), shared_view())
    assert gate.judge(answer(text, recent_texts=recent)).reason == reason


def by_subject(texts: Sequence[str]) -> list[list[float]]:
    """Stand in for an embedding model: rivers point one way, everything else another."""
    return [[1.0, 0.1] if "river" in text else [0.0, 1.0] for text in texts]


@pytest.mark.parametrize(
    ("bounds", "text", "reason"),
    [
        (LearnedBounds(), PROSE, "recent_meaning_ok"),
        (LearnedBounds(), OTHER, "unlike_recent_meaning"),
        (LearnedBounds(similarity=Range(0.05, None)), OTHER, "recent_meaning_ok"),
        (LearnedBounds(similarity=Range(0.9, None)), OTHER, "unlike_recent_meaning"),
    ],
)
def test_meaning_in_common_with_recent_answers(
    bounds: LearnedBounds, text: str, reason: str
) -> None:
    gate = recent_meaning(OutputLimits(), bounds, shared_view(), by_subject)
    verdict = gate.judge(answer(text, recent_texts=RIVERS))
    assert verdict.reason == reason
    if reason.startswith("unlike"):
        assert verdict.evidence["bound"] == ("learned" if bounds.similarity else "constant")


def test_likeness_of_sets_and_vectors() -> None:
    assert jaccard(frozenset("ab"), frozenset("bc")) == pytest.approx(1 / 3)
    assert jaccard(frozenset(), frozenset()) == 1
    assert cosine([1, 0], [1, 0]) == 1
    assert cosine([0, 0], [1, 0]) == 0


@pytest.mark.parametrize(
    ("wanted", "text", "finish", "reason"),
    [
        (("Paris", "Seine"), "PARIS lies on the seine.", "stop", "keywords_ok"),
        (("Paris", "Seine", "Louvre"), "Lyon lies on the Rhône.", "stop", "keywords_missing"),
        (("eight|8",), "It has 8 legs", "stop", "keywords_ok"),
        (("Paris",), "The capital", "length", "keywords_ok"),
        ((), "anything", "stop", "keywords_none_expected"),
    ],
)
def test_expected_words(wanted: tuple[str, ...], text: str, finish: str, reason: str) -> None:
    gate = keywords(OutputLimits(), shared_view(), lambda _exchange: wanted)
    assert gate.judge(answer(text, finish=finish)).reason == reason
