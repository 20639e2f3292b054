from __future__ import annotations

import inspect
import time
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.exchanges.exchange import Answer, Exchange, ToolCall
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.gate import Level, judge
from quality_lib.gates.level_output import model_gates, output_gates
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.records import Outcome
from tests.gates.answers import GATES, MORE, PROSE, answer, found, verdict_of


def test_a_request_alone_is_unjudged() -> None:
    judgement = judge(Exchange(prompt="Hi"), GATES)
    assert judgement.outcome is Outcome.UNJUDGED
    assert judgement.reasons == ()


def test_every_gate_is_of_level_4() -> None:
    assert {gate.level for gate in GATES} == {Level.OUTPUT}


def test_gates_of_models_are_made_for_what_is_given() -> None:
    limits, bounds = OutputLimits(), LearnedBounds()
    assert model_gates(limits, bounds) == ()
    made = model_gates(limits, bounds, readings=lambda _: None, expected=lambda _: ("river",))
    assert [gate.name for gate in made] == ["coherence", "unfinished", "keywords"]
    assert judge(answer(PROSE), made).outcome is Outcome.PASSED


def test_an_exchange_is_read_once() -> None:
    view = shared_view()
    exchange = answer(PROSE)
    assert view(exchange) is view(exchange)
    assert view(replace(exchange)) is not None
    assert view(Exchange()) is None


@pytest.mark.parametrize(
    ("tokens", "finish", "reason"),
    [
        (50, "stop", "length_ok"),
        (5, "stop", "answer_too_short"),
        (5, "length", "length_ok"),
        (5_000, "length", "answer_too_long"),
        (None, "stop", "answer_length_unknown"),
    ],
)
def test_length_against_the_learned_band(tokens: int | None, finish: str, reason: str) -> None:
    gates = output_gates(OutputLimits(), LearnedBounds(answer_tokens=Range(10, 400)))
    (gate,) = [gate for gate in gates if gate.name == "length"]
    assert gate.judge(answer(PROSE, finish=finish, completion_tokens=tokens)).reason == reason


def test_the_default_limit_is_told_from_the_caller_s() -> None:
    cut = answer("Rivers are", finish="length", completion_tokens=16)
    assert found(cut) == ("SUSPECT", ("answer_cut_by_default",))
    assert found(replace(cut, params={"max_tokens": 16})) == ("PASSED", ())


@pytest.mark.parametrize(
    ("params", "reasons"),
    [
        ({"stop": "three towns"}, ("stop_ignored",)),
        ({"stop": ["\n", "three towns"]}, ("stop_ignored",)),
        ({"stop": ["###"]}, ()),
        ({"stop": [None, ""]}, ()),
        ({"stop": "three towns", "include_stop_str_in_output": True}, ()),
    ],
)
def test_a_stop_text_ends_the_answer(params: dict[str, object], reasons: tuple[str, ...]) -> None:
    assert found(answer(PROSE, params=params))[1] == reasons


@pytest.mark.parametrize("finish", ["length", None])
@pytest.mark.parametrize("head", ["", PROSE, PROSE * 40])
def test_a_good_head_does_not_hide_a_dead_tail(head: str, finish: str | None) -> None:
    outcome, reasons = found(answer(head + "of the river " * 30, finish=finish))
    assert outcome == "FAILED"
    assert "loop_to_limit" in reasons


def test_a_loop_far_longer_than_asked_is_a_loop() -> None:
    prompt = 'Say "thank you" ten times.'
    assert found(answer("thank you " * 11, prompt))[0] == "PASSED"
    assert found(answer("thank you " * 200, prompt, "length"))[0] == "FAILED"


def test_evidence_of_a_loop_gives_place_and_numbers() -> None:
    evidence = verdict_of(answer(PROSE + "G" * 40, finish="length"), "loop").verdict.evidence
    assert evidence["unit"] == "G"
    assert evidence["copies"] == 40
    assert (evidence["start"], evidence["end"]) == (len(PROSE), len(PROSE) + 40)


texts = st.one_of(
    st.none(),
    st.text(max_size=200),
    st.text(alphabet=st.characters(exclude_categories=()), max_size=80),
    st.builds(lambda unit, times: unit * times, st.text(max_size=12), st.integers(0, 60)),
)
odd = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))


@settings(max_examples=300)
@given(
    text=texts,
    prompt=texts,
    finish=st.sampled_from(["stop", "length", "tool_calls", None, "odd"]),
    calls=st.lists(st.tuples(st.text(max_size=12), st.text(max_size=30)), max_size=3),
    params=st.dictionaries(st.sampled_from(["stop", "max_tokens", "echo"]), odd),
    form=st.one_of(st.none(), st.fixed_dictionaries({"type": odd, "json_schema": odd})),
    logprobs=st.one_of(st.none(), st.lists(st.floats(), max_size=40).map(tuple)),
)
def test_no_gate_crashes_on_odd_data(
    text: str | None,
    prompt: str | None,
    finish: str | None,
    calls: list[tuple[str, str]],
    params: dict[str, object],
    form: dict[str, object] | None,
    logprobs: tuple[float, ...] | None,
) -> None:
    exchange = Exchange(
        prompt=prompt,
        params=params,
        response_format=form,
        answer=Answer(
            text,
            tuple(ToolCall(*call) for call in calls),
            finish_reason=finish,
            logprobs=logprobs,
        ),
    )
    said = judge(exchange, GATES).gates
    assert [s for s in said if s.verdict.reason == "gate_crashed"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loop_copies", 2),
        ("stutter_share", 0.0),
        ("echo_share", 1.5),
        ("blank_tail", 0),
        ("foreign_runs", 0),
        ("max_perplexity", 1.0),
        ("max_perplexity_odd", 0.5),
        ("max_excess", 0.0),
        ("min_gain", 1.0),
        ("min_prompt_similarity", 1.5),
        ("letter_share", 0.0),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        OutputLimits(**{name: value})  # type: ignore[arg-type]


def test_every_limit_is_documented() -> None:
    source = inspect.getsource(OutputLimits)
    for field in fields(OutputLimits):
        assert f"    {field.name}: " in source
        rest = source.split(f"    {field.name}: ", 1)[1]
        assert rest.split("\n", 1)[1].lstrip().startswith('"""'), field.name


FLOODS = {
    "one letter": "a" * 200_000,
    "prose": (PROSE + MORE) * 600,
    "articles": "the of " * 30_000,
    "backticks": "` " * 60_000,
    "fences": "```\n" * 40_000,
    "bars": "a|b\n" * 40_000,
    "formulas": "\\(" * 60_000,
    "links": "](" * 60_000,
    "brackets": "[" * 100_000,
    "angles": "<" * 100_000,
    "line ends": "x" + "\n" * 200_000,
    "two scripts": "aф" * 60_000,
    "lost bytes": "a\ufffd" * 60_000,
    "deep code": "```python\n" + "-" * 100_000 + "1\n```",
    "long code": "```python\n" + "a = (1,\n" * 20_000,
}


@pytest.mark.parametrize("name", FLOODS)
def test_the_cost_grows_with_the_length_alone(name: str) -> None:
    start = time.thread_time()
    found(answer(FLOODS[name], finish="length"))
    # A quadratic rule takes minutes for these; a linear one a fraction of a second.
    assert time.thread_time() - start < 5
