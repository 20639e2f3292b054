"""What counts as a low-quality answer, and that counts add up."""

from __future__ import annotations

import pytest

from quality_lib.gates.gate import Level
from quality_lib.records import Outcome
from quality_lib.scoring.tally import (
    CRASHED,
    MOST_GROUPS,
    REST,
    UNKNOWN,
    Kind,
    Score,
    Tallies,
    Tally,
    tally_of,
)
from tests.scoring.builders import GOOD, LOW, said, score


@pytest.mark.parametrize(
    ("verdicts", "outcome", "is_low", "flagged"),
    [
        ([said("PASSED")], "PASSED", False, 0),
        ([said("PASSED"), said("FAILED")], "FAILED", True, 0),
        ([said("SUSPECT")], "SUSPECT", False, 0),
        ([said("FAILED", level=Level.STREAM)], "FAILED", True, 0),
        ([said("UNJUDGED")], "UNJUDGED", False, 0),
        ([], "UNJUDGED", False, 0),
        # A request that breaks the rules is the caller's doing, however bad it is.
        ([said("FAILED", level=Level.INPUT), said("PASSED")], "PASSED", False, 1),
        ([said("SUSPECT", level=Level.PARAMETERS)], "UNJUDGED", False, 1),
    ],
)
def test_the_answer_decides_and_not_the_request(
    verdicts: list[object], outcome: str, is_low: bool, flagged: int
) -> None:
    found = score(*verdicts)  # type: ignore[arg-type]
    assert (found.outcome, found.is_low) == (Outcome(outcome), is_low)
    assert tally_of([found], 1.0).requests_flagged == flagged


def test_an_unjudged_answer_is_no_good_answer() -> None:
    tally = tally_of([score(said("UNJUDGED"))], 10.0)
    assert (tally.rows, tally.judged, tally.weight) == (1, 0, 0.0)
    assert tally.low_rate() is None


def test_a_crashed_gate_is_counted_beside_what_the_others_said() -> None:
    tallies = Tallies()
    tallies.add([score(said("PASSED"), said("UNJUDGED", CRASHED))], 2.0, {})
    (whole,) = tallies.groups
    assert (whole.tally.judged, whole.tally.crashed) == (1, 1)
    (reason,) = tallies.reasons
    assert (reason.code, reason.rows, reason.weight) == (CRASHED, 1, 2.0)


def test_weights_make_the_share_of_the_whole_window() -> None:
    tallies = Tallies()
    for _ in range(9):
        tallies.add([GOOD], 100.0, {Kind.STRATUM: "chat"})
    tallies.add([LOW], 10.0, {Kind.STRATUM: "tools"})
    rates = {g.name: g.tally.low_rate() for g in tallies.groups}
    whole, tools = rates[""], rates["tools"]
    assert whole is not None
    assert tools is not None
    assert whole.share == pytest.approx(10 / 910)
    assert tools.share == 1.0


def test_partitions_add_up_to_what_one_task_would_have_counted() -> None:
    scores = [GOOD, LOW, score(said("SUSPECT")), score(said("UNJUDGED")), LOW]
    one, first, second = Tallies(), Tallies(), Tallies()
    for number, found in enumerate(scores):
        names = {Kind.MODEL: "a" if number % 2 else "b"}
        one.add([found], number + 1.0, names)
        (first if number < 2 else second).add([found], number + 1.0, names)
    first.include(second.groups, second.reasons)
    assert first.groups == one.groups
    assert first.reasons == one.reasons


def test_a_name_that_callers_choose_freely_cannot_fill_the_memory() -> None:
    tallies = Tallies()
    for number in range(3 * MOST_GROUPS):
        tallies.add([GOOD], 1.0, {Kind.MODEL: f"m{number}"})
    models = [g for g in tallies.groups if g.kind is Kind.MODEL]
    assert len(models) == MOST_GROUPS + 1
    assert sum((g.tally for g in models), Tally()).rows == 3 * MOST_GROUPS
    assert next(g for g in models if g.name == REST).tally.rows == 2 * MOST_GROUPS


def test_a_missing_name_is_said_to_be_missing() -> None:
    tallies = Tallies()
    tallies.add([GOOD], 1.0, {Kind.MODEL: ""})
    assert tallies.groups[1].name == UNKNOWN


def test_the_choices_of_a_request_are_one_observation() -> None:
    """300 healthy requests and one bad one with 64 choices: one of 301, not 64 of 364."""
    tallies = Tallies()
    for _ in range(300):
        tallies.add([GOOD], 1.0, {})
    tallies.add([LOW] * 64, 1.0, {})
    (whole,) = tallies.groups
    rate = whole.tally.low_rate()
    assert rate is not None
    assert (whole.tally.judged, whole.tally.low) == (301, 1)
    assert rate.share == pytest.approx(1 / 301)
    assert rate.effective_rows == pytest.approx(301)
    (reason,) = tallies.reasons
    assert (reason.rows, reason.weight) == (1, 1.0)


UNJUDGED = score(said("UNJUDGED"))
SUSPECT = score(said("SUSPECT"))


@pytest.mark.parametrize(
    ("scores", "judged", "low", "low_weight", "suspect_weight"),
    [
        ([GOOD, LOW], 1, 1, 5.0, 0.0),
        ([UNJUDGED, LOW], 1, 1, 10.0, 0.0),
        ([UNJUDGED, UNJUDGED], 0, 0, 0.0, 0.0),
        ([GOOD, GOOD, SUSPECT, LOW], 1, 1, 2.5, 2.5),
    ],
)
def test_a_request_counts_with_the_share_of_its_judged_choices(
    scores: list[Score], judged: int, low: int, low_weight: float, suspect_weight: float
) -> None:
    tally = tally_of(scores, 10.0)
    assert (tally.rows, tally.judged, tally.low) == (1, judged, low)
    assert (tally.low_weight, tally.suspect_weight) == (low_weight, suspect_weight)
