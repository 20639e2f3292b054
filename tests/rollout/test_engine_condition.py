"""Condition C: one signal is enough, silence is not health."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.records import Tri
from quality_lib.rollout.engine_condition import judge_engine
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.limits import TriggerLimits
from tests.rollout.evidence_builders import ago, evidence, signal

Y, N, U = Tri.YES, Tri.NO, Tri.UNKNOWN


def at(minutes: float) -> str:
    return ago(minutes).isoformat()


def judged(*signals: EngineFinding, **changes: Any) -> Any:
    return judge_engine(evidence(signals=signals, **changes), TriggerLimits())


@pytest.mark.parametrize(
    ("signals", "state"),
    [
        pytest.param([signal(Y)], Y, id="yes"),
        pytest.param([signal(N)], N, id="no"),
        pytest.param([signal(U)], U, id="unknown"),
        pytest.param([], U, id="silence"),
        pytest.param([signal(N), signal(Y, "leak"), signal(U, "log")], Y, id="one yes is enough"),
        pytest.param([signal(U), signal(Y, "leak")], Y, id="also where a required one is unknown"),
        pytest.param([signal(U), signal(N, "leak")], U, id="a required one leaves it open"),
        pytest.param([signal(N, "leak")], U, id="a required one that nobody read, too"),
        pytest.param([signal(N), signal(U, "gpu")], N, id="what nobody measures does not"),
        pytest.param([signal(U, "gpu")], U, id="only what nobody measures"),
        pytest.param(
            [signal(N, evidence={"instance": "a"}), signal(U, evidence={"instance": "b"})],
            U,
            id="a required one of each instance",
        ),
        pytest.param([signal(Y, at=at(16))], U, id="too old"),
        pytest.param([signal(Y, at=at(14))], Y, id="old enough"),
        pytest.param([signal(Y, "log", at=at(16)), signal(N)], N, id="an old one is left out"),
        pytest.param([signal(Y, at=at(-10))], U, id="of the future"),
        pytest.param([signal(Y, at="")], U, id="no time"),
        pytest.param([signal(Y, at=at(9)), signal(N, at=at(1))], N, id="the newest of a signal"),
        pytest.param([signal(N, at=at(1)), signal(Y, at=at(1))], Y, id="of two at once the worse"),
        pytest.param(
            [
                signal(Y, at=at(2), evidence={"instance": "old"}),
                signal(N, at=at(1), evidence={"instance": "new"}),
            ],
            Y,
            id="of each instance",
        ),
    ],
)
def test_signals(signals: list[EngineFinding], state: Tri) -> None:
    assert judged(*signals).state is state


def test_signals_from_before_the_last_change_do_not_count() -> None:
    assert judged(signal(Y, at=at(3)), last_change_at=ago(2)).state is U
    assert judged(signal(Y, at=at(2)), last_change_at=ago(2)).state is Y


def test_the_sentence_names_the_signal_and_the_inputs_keep_the_rest() -> None:
    found = judged(signal(N), signal(Y, "leak"), signal(U, "gpu"))
    assert found.sentence == "leak: the counter says yes"
    assert [(one["name"], one["counted"]) for one in found.inputs] == [
        ("leak", True),
        ("gpu", False),
        ("engine_health", True),
    ]
    assert found.inputs[0]["evidence"] == {"value": 3}
    assert found.inputs[1]["why_not"] == "not measured, and not required"
    assert judged(signal(U)).sentence == "engine_health: the counter says unknown"
    assert judged(signal(N, "leak")).sentence == "engine_health was not read in time"
    assert judged(signal(N)).sentence.endswith("speaks of damage (engine_health)")
    told = judged(signal(Y, at=at(20))).sentence
    assert told == "no engine signal counts: engine_health is 20 min old, allowed are 15 min"
