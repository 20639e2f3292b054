from __future__ import annotations

import json
import math
from typing import Any

import pytest

from quality_lib.commands.check_lines import MAX_KEPT, CheckLines
from quality_lib.gates.gate import GateVerdict, Judgement, Level
from quality_lib.jobs.check import Checked
from quality_lib.records import Outcome, Verdict


def checked(verdict: Verdict, gate: str = "g", name: str = "a") -> Checked:
    said = GateVerdict(gate, Level.OUTPUT, verdict)
    return Checked(name, Judgement(verdict.outcome, (said, said)), normalised="é")


def test_a_line_is_the_whole_object() -> None:
    verdict = Verdict(Outcome.FAILED, "loop", 'It "loops".', {"start": 3})
    gate = {
        "gate": "g", "level": 4, "outcome": "FAILED", "reason": "loop", "sentence": 'It "loops".',
        "evidence": {"start": 3},
    }  # fmt: skip
    line = CheckLines().line(checked(verdict))
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "id": "a", "verdict": "FAILED", "reasons": ["loop"], "gates": [gate, gate], "normalised": "é",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, object(), {1, 2}, Outcome.PASSED, "\ud800", {"a": (1, math.nan)}]
)
def test_odd_evidence_is_written_as_valid_json(value: Any) -> None:
    line = CheckLines().line(checked(Verdict(Outcome.PASSED, "r", "s", {"x": value})))
    told = json.loads(line, parse_constant=pytest.fail)
    assert "x" in told["gates"][0]["evidence"]


def test_verdicts_are_never_mixed_up() -> None:
    """Objects that die give their identity to new ones; far more than are kept pass through here."""
    lines = CheckLines()
    for number in range(3 * MAX_KEPT):
        verdict = Verdict(Outcome.PASSED, f"r{number}", "s")
        told = json.loads(lines.line(checked(verdict, gate=f"g{number % 2}")))
        assert told["gates"][0]["reason"] == f"r{number}"
    shared = Verdict(Outcome.PASSED, "same", "s")
    again = CheckLines()
    for gate in ("one", "two", "one"):
        assert json.loads(again.line(checked(shared, gate)))["gates"][1]["gate"] == gate
