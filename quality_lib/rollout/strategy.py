"""How a rollback goes about it, and the order of its steps. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from quality_lib.errors import BadInput


class Strategy(StrEnum):
    """What hardware a rollback may count on (requirement R10)."""

    SURGE = "surge"
    """Spare hardware: new instances beside the old ones, traffic moves in steps."""
    ROLLING = "rolling"
    """Several replicas and nothing spare: one after the other is replaced."""
    IN_PLACE = "in-place"
    """One instance and nothing spare: the old one ends, then the new one starts. An outage."""


class StepName(StrEnum):
    """What can be asked for by name."""

    VALIDATE = "validate"
    START = "start"
    CHECK = "check"
    MOVE = "move"
    RETIRE = "retire"
    RECOVER = "recover"
    REPORT = "report"
    ABORT = "abort"
    STOP_STAGING = "stop-staging"


ORDER = (
    StepName.VALIDATE,
    StepName.START,
    StepName.CHECK,
    StepName.MOVE,
    StepName.RETIRE,
    StepName.RECOVER,
    StepName.REPORT,
)
"""The way forward; ``move`` comes once per move of the plan. The other two may come at any time."""


def check_strategy(strategy: Strategy, replicas: Collection[str], min_capacity: int) -> None:
    """Refuse a strategy that the number of serving replicas does not allow.

    Raises:
        BadInput: naming what would go.
    """
    count = len(replicas)
    if strategy is Strategy.ROLLING and count < 2:
        raise BadInput(
            f"rolling needs several replicas, and {count} serves",
            field="rollback.strategy",
            fix="use surge with spare hardware, or in-place with an outage",
        )
    if strategy is Strategy.ROLLING and count - 1 < min_capacity:
        raise BadInput(
            f"rolling would leave {count - 1} of {count} replicas, and min_capacity is {min_capacity}",
            field="rollback.min_capacity",
            fix="use surge, or lower min_capacity",
        )
    if strategy is Strategy.IN_PLACE and count != 1:
        raise BadInput(
            f"in-place is for a single replica, and {count} serve",
            field="rollback.strategy",
            fix="use rolling: it replaces one after the other without an outage",
        )
