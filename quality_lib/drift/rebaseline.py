"""When a calibration may be learned anew, and when it must not. Pure.

Detection anchors, 4.6. Learning from data after a suspicion would teach the fault as health; so only a
declared deployment starts it, and somebody accepts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.paired import Statistic, pair_up, statistics
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import SequentialState

FREEZE = timedelta(hours=1)
FIRST_CHECKS = 200
FULL_CHECKS = 2000


class Phase(StrEnum):
    """Where a new calibration stands."""

    NONE = "none"
    """Nothing was deployed: the calibration stays."""
    REFUSED = "refused"
    """There is a suspicion and no deployment explains it."""
    FROZEN = "frozen"
    """Just deployed: nobody is paged, nothing is learned yet."""
    COLLECTING = "collecting"
    """Healthy checks are collected, at least ``FIRST_CHECKS``."""
    WAITING = "waiting_for_acceptance"
    """Enough to compare; somebody has to look at the size of the change."""
    TOPPING_UP = "topping_up"
    """Accepted and in use; more checks are added in quiet hours."""
    DONE = "done"


@dataclass(frozen=True)
class Rule:
    """What may happen now, and why."""

    phase: Phase
    may_page: bool
    may_learn: bool
    uses_new: bool
    """Whether decisions stand on the new calibration."""
    reason: str


@dataclass(frozen=True)
class Deployment:
    """A change that somebody declared."""

    at: datetime
    accepted_by: str | None = None
    """Who has looked at the size of the change: a person, or the name of the deploy hook."""


def rule(
    deployment: Deployment | None, now: datetime, collected: int, state: SequentialState
) -> Rule:
    """Return what may happen; ``collected`` counts healthy checks since the deployment.

    ``state`` is that of the calibration in use. Old calibrations are kept for a way back.
    """
    suspicion = state.suspicious_since
    if deployment is None:
        if suspicion is not None:
            return Rule(
                Phase.REFUSED,
                True,
                False,
                False,
                f"a change is suspected since {suspicion} and no deployment was declared: learning "
                "now would teach the fault as health",
            )
        return Rule(Phase.NONE, True, False, False, "no deployment was declared")
    if now - deployment.at < FREEZE:
        return Rule(
            Phase.FROZEN,
            False,
            True,
            False,
            f"deployed at {deployment.at.isoformat()}: nobody is paged for the first hour",
        )
    if collected < FIRST_CHECKS:
        return Rule(
            Phase.COLLECTING,
            True,
            True,
            False,
            f"{collected} of {FIRST_CHECKS} healthy checks of the new deployment",
        )
    if not deployment.accepted_by:
        return Rule(
            Phase.WAITING,
            True,
            True,
            False,
            "somebody has to look at the size of the change and accept it",
        )
    if suspicion is not None:
        return Rule(
            Phase.REFUSED,
            True,
            False,
            True,
            f"accepted by {deployment.accepted_by}, but a change is suspected since {suspicion}: "
            "nothing more is learned",
        )
    if collected < FULL_CHECKS:
        return Rule(
            Phase.TOPPING_UP,
            True,
            True,
            True,
            f"accepted by {deployment.accepted_by}; {collected} of {FULL_CHECKS} checks",
        )
    return Rule(
        Phase.DONE, True, False, True, f"accepted by {deployment.accepted_by}, {collected} checks"
    )


@dataclass(frozen=True)
class SizeOfChange:
    """How far new checks lie from an old reference."""

    checks: int
    mean_delta: float | None
    """Nats per token, over probes whose difference is a number."""
    healthy_delta: float | None
    """The same in the old health."""
    mean_z: float | None
    """In healthy standard deviations."""
    forked: float | None
    """Share of answers that came out as other tokens."""
    broken: int
    """Probes with a missing number or other tokens of the stored answer."""

    @property
    def sentence(self) -> str:
        """Say it for whoever has to accept it."""
        if self.mean_delta is None or self.healthy_delta is None or self.mean_z is None:
            return f"{self.checks} checks: nothing can be compared with the old baseline"
        return (
            f"stored answers moved by {self.mean_delta:.4f} nats per token, {self.healthy_delta:.4f} "
            f"in the old health ({self.mean_z:.1f} standard deviations), {self.forked or 0:.0%} of "
            f"the answers came out differently, over {self.checks} checks"
        )


def size_of_change(
    readings: Sequence[CheckReading], reference: CheckReading, calibration: Calibration
) -> SizeOfChange:
    """Hold new checks against the old reference and its health."""
    checks = [pair_up(r, reference, calibration.variants) for r in readings]
    pairs = [p for check in checks for p in check]
    finite = [p.delta for p in pairs if p.delta is not None and math.isfinite(p.delta)]
    known = [h.usual_delta for h in calibration.healthy.values() if h.is_measured]
    z = [
        value
        for check in checks
        if (value := statistics(check, calibration.healthy)[Statistic.MEAN_Z]) is not None
    ]
    return SizeOfChange(
        checks=len(readings),
        mean_delta=_mean(finite),
        healthy_delta=_mean(known),
        mean_z=_mean(z),
        forked=_mean([float(p.fork is not None) for p in pairs]),
        broken=sum(p.delta is not None and not math.isfinite(p.delta) for p in pairs),
    )


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
