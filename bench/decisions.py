"""What the product decides on check after check, as an endpoint of its own remembers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import DriftDecision, decide
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import SequentialState


@dataclass(frozen=True)
class Told:
    """One check and the decision on it."""

    reading: CheckReading
    decision: DriftDecision
    is_recheck: bool
    """Whether the decision before asked for it."""


def decisions(
    readings: Iterable[CheckReading],
    reference: CheckReading,
    calibration: Calibration,
    limits: DriftLimits,
) -> Iterator[Told]:
    """Judge checks in order; where a decision asks for a re-check, the next one is it.

    A check is taken from ``readings`` when the one before it has been judged.
    """
    state, is_recheck = SequentialState(), False
    for reading in readings:
        decision = decide(
            reading, reference, calibration, state, limits,
            is_recheck=is_recheck, platform=calibration.platform,
        )  # fmt: skip
        yield Told(reading, decision, is_recheck)
        state, is_recheck = decision.state, decision.needs_recheck
