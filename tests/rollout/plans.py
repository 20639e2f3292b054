"""Plans and journals with defaults, so that a test names only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from quality_lib.rollout.journal import Journal, Replica
from quality_lib.rollout.plan import Candidate, Choices, Costs, Plan, make_plan
from quality_lib.rollout.ports import Backend, RouteTable

NOW = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
INCIDENT = "chat-abc-0"


def table(**weights: int) -> RouteTable:
    """Return a table; a backend's address is made from its place."""
    pairs = enumerate(weights.items(), 1)
    return RouteTable("chat", tuple(Backend(n, f"10.0.0.{i}:8000", w) for i, (n, w) in pairs))


def plan(starting: RouteTable | None = None, costs: Costs = Costs(), **choices: Any) -> Plan:  # noqa: B008 - frozen
    return make_plan(
        INCIDENT,
        starting or table(a=60, b=40),
        [Candidate("f" * 64, 3, "2026-03-01"), Candidate("e" * 64, 2, "2026-02-01")],
        Choices(**choices),
        costs,
    )


def journal(made: Plan | None = None, **changes: Any) -> Journal:
    """Return a journal whose new instances are all there."""
    made = made or plan()
    fresh = tuple(
        Replica(name, f"id-{number}", f"10.0.1.{number}:8000")
        for number, name in enumerate(made.fresh, 1)
    )
    values = {"fresh": fresh, **changes}
    return Journal(INCIDENT, "chat", made, "auto", "because", "ada", NOW, **values)
