"""Which answers are read, how many at once, and what happens when nothing can be read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quality_lib.errors import BadInput
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.coherence import coherence
from quality_lib.gates.gate import Gate
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Reading, Readings
from quality_lib.jobs.check import check, check_gates
from quality_lib.jobs.reference_reading import Pair, ReferenceReader, readings_of
from quality_lib.records import Outcome
from quality_lib.settings import GateSettings
from tests.gates.answers import PROSE, answer

LOOP = "!" * 64


class Reader:
    """Finds answers with the word "nonsense" improbable, and remembers what it was asked."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.asked: list[list[Pair]] = []

    def read(self, pairs: Sequence[Pair]) -> list[Reading]:
        if self.problem is not None:
            raise self.problem
        self.asked.append(list(pairs))
        return [
            Reading(((-9.0 if "nonsense" in text else -1.0),) * 40, (1.0,) * 40)
            for _, text in pairs
        ]


def gate(readings: Readings) -> Gate:
    return coherence(OutputLimits(), LearnedBounds(), shared_view(), readings)


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
