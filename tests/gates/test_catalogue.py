from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.catalogue import entries, every_gate, gates_of, unknown_names
from quality_lib.gates.gate import Level, judge
from quality_lib.records import Outcome
from quality_lib.settings import GateSettings
from tests.gates.answers import PROSE, answer
from tests.gates.test_output_bad import BAD
from tests.gates.test_output_healthy import HEALTHY

ROOT = Path(__file__).parents[2]


def test_no_two_gates_share_a_code() -> None:
    codes = Counter(entry.reason.code for entry in entries())
    assert [code for code, times in codes.items() if times > 1] == []


def test_no_two_gates_share_a_name() -> None:
    names = Counter(gate.name for gate in every_gate())
    assert names.most_common(1)[0][1] == 1


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.reason.code)
def test_every_code_can_be_told(entry: object) -> None:
    reason = entry.reason  # type: ignore[attr-defined]
    assert reason.code.replace("_", "").isalnum()
    assert reason.code == reason.code.lower()
    assert reason.meaning.endswith(".")


def test_the_page_is_in_step_with_the_gates() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "write_gate_catalogue.py"))["page"]()
    written = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    assert written == made, "run: .venv/bin/python scripts/write_gate_catalogue.py"


def test_what_gates_say_is_in_the_catalogue_with_its_outcome() -> None:
    known = {(e.gate, e.reason.code): e.reason.outcome for e in entries()}
    gates = gates_of(GateSettings(), LearnedBounds())
    for exchange in [bad[1] for bad in BAD] + [healthy[1] for healthy in HEALTHY]:
        for said in judge(exchange, gates).gates:
            assert known[said.gate, said.verdict.reason] is said.verdict.outcome


def test_levels_are_chosen_and_gates_switched_off() -> None:
    settings = GateSettings(disabled=("loop",))
    gates = gates_of(settings, LearnedBounds(), {Level.OUTPUT})
    assert {gate.level for gate in gates} == {Level.OUTPUT}
    assert "loop" not in {gate.name for gate in gates}
    looping = answer(PROSE + "G" * 80, finish="length")
    assert judge(looping, gates).outcome is Outcome.PASSED


def test_a_slip_in_a_name_is_told() -> None:
    assert unknown_names(("loop", "lop")) == ("lop",)
