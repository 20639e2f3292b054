"""What a record alone knows of an answer: level 3, and that values were masked."""

from __future__ import annotations

import pytest

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.exchanges.row import Facts
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import judge
from quality_lib.gates.level_output import output_gates
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome, Verdict
from quality_lib.scoring.logged import judged_as_logged
from quality_lib.scoring.tally import score_of
from tests.scoring.builders import judgement, said

GATES = output_gates(OutputLimits(), LearnedBounds())
MAIL = {
    "type": "object",
    "properties": {"mail": {"type": "string", "pattern": "^[^@ ]+@[^@ ]+$"}},
    "required": ["mail"],
}


def test_what_level_3_found_decides_like_any_other_gate() -> None:
    loop = Verdict(Outcome.FAILED, "stream_loop", "It loops.")
    found = judged_as_logged(judgement(said("PASSED")), Facts(stream_verdicts=(loop,)))
    assert score_of(found).is_low
    assert found.reasons == ("stream_loop",)
    assert not score_of(judged_as_logged(judgement(said("PASSED")), Facts())).is_low


FORMAT = Exchange(
    prompt="Give me the address as JSON.",
    response_format={"type": "json_schema", "json_schema": {"schema": MAIL}},
    answer=Answer('{"mail": "[email]"}', finish_reason="stop"),
)
CALL = Exchange(
    prompt="Write to Jo.",
    tools=({"type": "function", "function": {"name": "send", "parameters": MAIL}},),
    answer=Answer(None, (ToolCall("send", '{"mail": "[email]"}'),), finish_reason="tool_calls"),
)


@pytest.mark.parametrize("exchange", [FORMAT, CALL], ids=["format", "call"])
@pytest.mark.parametrize(
    ("masked", "is_low"), [({"response"}, False), ({"request"}, True), (set(), True)]
)
def test_a_placeholder_in_the_place_of_a_value_is_no_fault_of_the_answer(
    exchange: Exchange, masked: set[str], is_low: bool
) -> None:
    found = judged_as_logged(judge(exchange, GATES), Facts(masked=frozenset(masked)))
    assert score_of(found).is_low is is_low
    assert ("answer_masked" in {g.verdict.reason for g in found.gates}) is not is_low


def test_masking_excuses_nothing_else() -> None:
    masked = Facts(masked=frozenset({"response"}))
    assert score_of(judged_as_logged(judgement(said("FAILED", "loop_only")), masked)).is_low
