"""Answers that had to be ended, beside those that ended by themselves or at a limit."""

from __future__ import annotations

import pytest

from quality_lib.gates.ending import GUARD_FINISH
from quality_lib.serving.stream_rewrite import STOP_REASON
from tests.gates.answers import PROSE, answer, verdict_of


@pytest.mark.parametrize(
    ("finish", "outcome", "reason"),
    [
        ("quality_stop", "FAILED", "ending_quality_stop"),
        ("repetition", "FAILED", "ending_repetition"),
        ("stop", "PASSED", "ending_ok"),
        ("length", "PASSED", "ending_ok"),
        ("tool_calls", "PASSED", "ending_ok"),
        ("abort", "PASSED", "ending_ok"),
        ("", "PASSED", "ending_ok"),
        (None, "PASSED", "ending_ok"),
    ],
)
def test_an_answer_that_had_to_be_ended_is_no_good_one(
    finish: str | None, outcome: str, reason: str
) -> None:
    """What is left of it reads well: the text was cut before it went wrong for long."""
    said = verdict_of(answer(PROSE, finish=finish), "ending").verdict
    assert (said.outcome.value, said.reason) == (outcome, reason)


def test_the_guard_ends_answers_with_the_reason_that_is_looked_for() -> None:
    assert GUARD_FINISH == STOP_REASON
