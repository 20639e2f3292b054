"""Whether a table may be put into force: it must not take the service below what it needs. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from quality_lib.rollout.ports import Backend, RouteTable


def serving(table: RouteTable, healthy: AbstractSet[str]) -> tuple[Backend, ...]:
    """Return the healthy backends that get requests."""
    return tuple(b for b in table.backends if b.weight > 0 and b.name in healthy)


def capacity_problems(
    before: RouteTable, after: RouteTable, healthy: AbstractSet[str], min_capacity: int = 1
) -> tuple[str, ...]:
    """Return why the step from one table to the next may not be made; empty: it may.

    Weight may only go up on a backend that is known to be healthy; what is merely left where it is, or
    goes down, is nobody's risk. Backends count as capacity when they are healthy and get requests.
    """
    earlier = before.weights()
    problems = [
        f"'{b.name}' would go from {earlier.get(b.name, 0)} to {b.weight} % and is not known to be healthy"
        for b in after.backends
        if b.weight > earlier.get(b.name, 0) and b.name not in healthy
    ]
    if (left := len(serving(after, healthy))) < min_capacity:
        problems.append(
            f"only {left} healthy backend(s) would serve '{after.service}'; it needs {min_capacity}"
        )
    return tuple(problems)
