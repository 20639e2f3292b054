"""When a calibration may be learned anew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.rebaseline import Deployment, Phase, rule, size_of_change
from quality_lib.drift.sequential import SequentialState
from tests.drift.readings import LIMITS, REFERENCE, Server, healthy_checks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUIET = SequentialState()
SUSPICIOUS = SequentialState(suspicious_since="2026-01-01T11:00:00+00:00")
DECLARED = Deployment(NOON)
ACCEPTED = Deployment(NOON, accepted_by="ada")


@pytest.mark.parametrize(
    ("deployment", "hours", "collected", "state", "phase", "may_page", "may_learn", "uses_new"),
    [
        (None, 5, 0, QUIET, Phase.NONE, True, False, False),
        (None, 5, 5000, SUSPICIOUS, Phase.REFUSED, True, False, False),
        (DECLARED, 0.5, 500, QUIET, Phase.FROZEN, False, True, False),
        (DECLARED, 0.5, 0, SUSPICIOUS, Phase.FROZEN, False, True, False),
        (DECLARED, 1, 199, QUIET, Phase.COLLECTING, True, True, False),
        (DECLARED, 2, 200, SUSPICIOUS, Phase.WAITING, True, True, False),
        (ACCEPTED, 2, 199, QUIET, Phase.COLLECTING, True, True, False),
        (ACCEPTED, 2, 200, QUIET, Phase.TOPPING_UP, True, True, True),
        (ACCEPTED, 2, 500, SUSPICIOUS, Phase.REFUSED, True, False, True),
        (ACCEPTED, 90, 2000, QUIET, Phase.DONE, True, False, True),
    ],
)
def test_the_rules(
    deployment: Deployment | None,
    hours: float,
    collected: int,
    state: SequentialState,
    phase: Phase,
    may_page: bool,
    may_learn: bool,
    uses_new: bool,
) -> None:
    found = rule(deployment, NOON + timedelta(hours=hours), collected, state)
    assert (found.phase, found.may_page, found.may_learn, found.uses_new) == (
        phase,
        may_page,
        may_learn,
        uses_new,
    )
    assert found.reason


def test_a_suspicion_is_named() -> None:
    assert "since 2026-01-01T11" in rule(None, NOON, 0, SUSPICIOUS).reason


@pytest.fixture(scope="module")
def known() -> Calibration:
    return calibrate(healthy_checks(Server(1)), REFERENCE, LIMITS)


def test_the_size_of_a_change_is_told(known: Calibration) -> None:
    same = size_of_change([Server(2).read() for _ in range(5)], REFERENCE, known)
    moved = size_of_change([Server(3, shift=0.2).read() for _ in range(5)], REFERENCE, known)
    assert same.mean_delta == pytest.approx(same.healthy_delta, rel=0.1)
    assert moved.mean_delta == pytest.approx(0.2, rel=0.1)
    assert moved.mean_z is not None
    assert moved.mean_z > 2
    assert f"{moved.mean_delta:.4f} nats" in moved.sentence
    assert moved.checks == 5


def test_nothing_to_compare_is_told(known: Calibration) -> None:
    assert "nothing can be compared" in size_of_change([], REFERENCE, known).sentence
