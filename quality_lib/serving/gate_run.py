"""Asking gates inside the server, where a gate may neither crash nor take its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, GateVerdict, Judgement, judge
from quality_lib.records import Outcome, Verdict
from quality_lib.serving.guard_ports import GateCounters

CRASHED = "gate_crashed"
SLOW = "gate_slow"


def run_gates(
    gates: Sequence[Gate],
    exchange: Exchange,
    budget_s: float,
    counters: GateCounters,
    clock: Callable[[], float],
) -> tuple[GateVerdict, ...]:
    """Ask one gate after the other until the time is used up; the rest is UNJUDGED as slow."""
    said: list[GateVerdict] = []
    began = clock()
    for gate in gates:
        if clock() - began > budget_s:
            counters.gate_skipped(gate.name, SLOW)
            said.append(_slow(gate, budget_s))
            continue
        verdict = judge(exchange, (gate,)).gates[0]
        if verdict.verdict.reason == CRASHED:
            counters.gate_skipped(gate.name, CRASHED)
        said.append(verdict)
    return tuple(said)


def outcome_of(said: Sequence[GateVerdict]) -> Outcome:
    """Return the worst outcome; UNJUDGED when nothing could be said."""
    outcomes = {one.verdict.outcome for one in said}
    for outcome in (Outcome.FAILED, Outcome.SUSPECT, Outcome.PASSED):
        if outcome in outcomes:
            return outcome
    return Outcome.UNJUDGED


def reasons_of(said: Sequence[GateVerdict]) -> tuple[str, ...]:
    """Return the codes worse than a pass, the worst first."""
    return Judgement(outcome_of(said), tuple(said)).reasons


def count_failures(said: Sequence[GateVerdict], counters: GateCounters) -> None:
    """Count every verdict worse than a pass."""
    for one in said:
        if one.verdict.outcome in {Outcome.FAILED, Outcome.SUSPECT}:
            counters.gate_failed(int(one.level), one.gate, one.verdict.reason, one.verdict.outcome)


def _slow(gate: Gate, budget_s: float) -> GateVerdict:
    sentence = f"Not asked: the gates before it took more than {budget_s:g} s."
    return GateVerdict(gate.name, gate.level, Verdict(Outcome.UNJUDGED, SLOW, sentence))
