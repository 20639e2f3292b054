from __future__ import annotations

from quality_lib.exchanges.exchange import Answer, Exchange
from quality_lib.gates.gate import Gate, Level, judge
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.level_input import input_gates
from quality_lib.gates.level_parameters import parameter_gates
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.records import Outcome

SCOPED = InputLimits(scope_examples=("a",))


def gates() -> tuple[Gate, ...]:
    first = input_gates(SCOPED, similarity=lambda pairs: [1.0] * len(pairs))
    return (*first, *parameter_gates(ParameterBounds()))


def test_names_and_reason_codes_are_unique() -> None:
    names = [gate.name for gate in gates()]
    codes = [reason.code for gate in gates() for reason in gate.reasons]
    assert len(set(names)) == len(names)
    assert len(set(codes)) == len(codes)


def test_every_gate_stands_in_its_level() -> None:
    assert {gate.level for gate in input_gates(InputLimits())} == {Level.INPUT}
    assert {gate.level for gate in parameter_gates(ParameterBounds())} == {Level.PARAMETERS}


def test_switches() -> None:
    plain = {gate.name for gate in input_gates(InputLimits(nonsense=False))}
    assert "input_nonsense" not in plain
    assert "input_scope" not in plain
    assert "input_scope" in {gate.name for gate in gates()}


def test_an_ordinary_exchange_passes_and_says_only_known_codes() -> None:
    exchange = Exchange(
        messages=({"role": "user", "content": "Name three fruits."},),
        params={"temperature": 1, "top_p": 1, "max_tokens": 256},
        answer=Answer("Apple, pear, plum."),
        prompt_tokens=12,
        completion_tokens=9,
    )
    judgement = judge(exchange, gates())
    assert judgement.outcome is Outcome.PASSED
    known = {gate.name: {reason.code for reason in gate.reasons} for gate in gates()}
    assert all(said.verdict.reason in known[said.gate] for said in judgement.gates)


def test_an_empty_exchange_is_never_a_pass_of_level_1() -> None:
    judgement = judge(Exchange(), input_gates(InputLimits()))
    assert judgement.outcome is Outcome.UNJUDGED
