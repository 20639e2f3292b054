"""Which answers are read, how many at once, and what happens when nothing can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Reading
from quality_lib.jobs.check import check, check_gates
from quality_lib.jobs.reference_reading import (
    NO_PROMPT,
    Pair,
    ReferenceGates,
    ReferenceReader,
    alike_by,
    alike_of,
    gains_of,
    readings_of,
)
from quality_lib.records import Outcome
from quality_lib.settings import GateSettings
from tests.gates.answers import PROSE, answer

LOOP = "!" * 64


BESIDE = "The ferry to the island leaves at noon and takes about an hour when the sea is calm."


class Reader:
    """Finds answers with the word "nonsense" improbable, and remembers what it was asked.

    What it knows of ferries is not in any prompt; all else is likelier with one.
    """

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.asked: list[list[Pair]] = []

    def read(self, pairs: Sequence[Pair]) -> list[Reading]:
        if self.problem is not None:
            raise self.problem
        self.asked.append(list(pairs))
        return [Reading((self._logprob(*pair),) * 40, (1.0,) * 40) for pair in pairs]

    @staticmethod
    def _logprob(prompt: str, text: str) -> float:
        if prompt == NO_PROMPT:
            return -0.5 if "ferry" in text else -2.0
        return -9.0 if "nonsense" in text else -1.0


class Likeness:
    """Finds texts alike that share a long word, and remembers what it was asked."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.asked: list[Pair] = []

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        self.asked += pairs
        if self.problem is not None:
            raise self.problem
        return [float(bool(_long_words(first) & _long_words(second))) for first, second in pairs]


def _long_words(text: str) -> set[str]:
    return {word for word in text.lower().rstrip("?.").split() if len(word) > 4}


gate = ReferenceGates(OutputLimits(), LearnedBounds())


def outcomes(texts: Sequence[str | None], reader: ReferenceReader) -> list[Outcome]:
    exchanges = [answer(text) if text is not None else Exchange(prompt="Hello?") for text in texts]
    found = list(check(exchanges, check_gates(GateSettings()), reader))
    return [one.outcome for one in found]


def test_equal_answers_are_read_once() -> None:
    model = Reader()
    readings = readings_of(model, [answer(PROSE), answer(PROSE), answer("One more.")])
    assert [len(pairs) for pairs in model.asked] == [2]
    assert readings(answer(PROSE)) is not None
    assert readings(answer("never seen")) is None


def test_nothing_is_asked_when_there_is_no_text() -> None:
    model = Reader()
    assert readings_of(model, [Exchange(prompt="Hello?"), answer("  ")])(answer("  ")) is None
    assert model.asked == []


@pytest.mark.parametrize("together", [1, 2, 64])
def test_records_stay_in_order_whatever_the_groups(together: int) -> None:
    texts = [PROSE, f"{PROSE} nonsense", LOOP, None, PROSE]
    model = Reader()
    found = outcomes(texts, ReferenceReader(model, gate, together=together))
    assert [o is Outcome.PASSED for o in found] == [True, False, False, True, True]
    read = [text for pairs in model.asked for _, text in pairs]
    assert LOOP not in read  # failed already


def test_a_limit_leaves_the_rest_unread_and_counts_it() -> None:
    reader = ReferenceReader(Reader(), gate, most=1, together=2)
    found = outcomes([PROSE, f"{PROSE} nonsense", f"{PROSE} nonsense too"], reader)
    assert found == [Outcome.PASSED] * 3
    assert (reader.read, reader.left_out) == (1, 2)


def test_a_model_that_cannot_be_had_is_told_once_or_is_an_error() -> None:
    told: list[str] = []
    model = Reader(BadInput("no such model"))
    reader = ReferenceReader(model, gate, together=1, give_up=told.append)
    assert outcomes([PROSE, PROSE], reader) == [Outcome.PASSED] * 2
    assert len(told) == 1
    assert reader.left_out == 0
    with pytest.raises(BadInput):
        outcomes([PROSE], ReferenceReader(model, gate))


def test_only_what_may_be_beside_the_question_is_read_again() -> None:
    model, likeness = Reader(), Likeness()
    exchanges = [
        answer(PROSE, "How do rivers form valleys?"),
        answer(BESIDE, "How do rivers form valleys?"),
        answer(BESIDE, "When does the ferry reach the island?"),
        answer(BESIDE, "Tell me a joke."),
        answer("```python\nprint(1)\n```", "How do I print a number?"),
    ]
    gates = ReferenceGates(OutputLimits(), LearnedBounds(), alike_by(likeness))
    reader = ReferenceReader(model, gates)
    said = reader.verdicts(exchanges)
    assert [[one.verdict.reason for one in each] for each in said] == [
        ["coherence_ok", "end_unknown", "relevance_ok"],
        ["coherence_ok", "end_unknown", "beside_the_question"],
        ["coherence_ok", "end_unknown", "relevance_ok"],
        ["coherence_ok", "end_unknown", "relevance_unknown"],
        ["coherence_ok", "end_unknown", "relevance_unknown"],
    ]
    _, again = model.asked
    assert again == sorted([(NO_PROMPT, BESIDE), (NO_PROMPT, PROSE)])
    # Likeness is asked only where the prompt adds nothing.
    assert [text for _, text in likeness.asked] == [BESIDE, BESIDE]


@pytest.mark.parametrize(
    ("names", "made"),
    [
        (("coherence", "relevance"), ["coherence", "relevance"]),
        (("relevance",), ["relevance"]),
        (("unfinished",), ["unfinished"]),
        (("coherence",), ["coherence"]),
    ],
)
def test_gates_that_are_not_wanted_cost_nothing(names: tuple[str, ...], made: list[str]) -> None:
    model = Reader()
    gates = ReferenceGates(OutputLimits(), LearnedBounds(), alike_by(Likeness()), names)
    asked = [answer(BESIDE, "How do rivers form valleys?")]
    assert [one.name for one in gates(model, asked)] == made
    assert len(model.asked) == 1 + ("relevance" in names)


def test_without_the_embedding_package_relevance_says_nothing_and_asks_once() -> None:
    likeness = Likeness(ImportError("no such package"))
    alike = alike_by(likeness)
    exchange = answer(BESIDE, "How do rivers form valleys?")
    assert [alike(exchange), alike(exchange)] == [None, None]
    assert len(likeness.asked) == 1
    gates = ReferenceGates(OutputLimits(), LearnedBounds(), alike)(Reader(), [exchange])
    assert [one.judge(exchange).reason for one in gates] == [
        "coherence_ok",
        "end_unknown",
        "relevance_unknown",
    ]


def test_a_model_for_likeness_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="embedding_model"):
        alike_of(str(tmp_path))


def test_gains_are_known_of_what_was_asked_alone() -> None:
    model = Reader()
    exchange = answer(BESIDE, "How do rivers form valleys?")
    gains = gains_of(model, [exchange], readings_of(model, [exchange]))
    # 40 tokens, each half a nat less likely after the prompt.
    assert gains(exchange) == pytest.approx(-20.0)
    assert gains(answer(PROSE, "How do rivers form valleys?")) is None
    assert gains(Exchange(prompt="Hello?")) is None


def test_the_whole_conversation_stands_before_the_answer() -> None:
    model = Reader()
    exchange = Exchange(
        messages=(
            {"role": "user", "content": "What is the capital of Norway?"},
            {"role": "assistant", "content": "Oslo."},
            {"role": "user", "content": "And of Sweden?"},
        ),
        answer=answer("Stockholm.").answer,
    )
    readings_of(model, [exchange])
    (((prompt, _),),) = model.asked
    assert "Norway" in prompt and prompt.endswith("And of Sweden?")
