"""Move the traffic, one step of the plan at a time, and look at what it does (R5)."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from quality_lib.errors import NoData
from quality_lib.jobs.rollback_retire import retire_one, stop_retired
from quality_lib.jobs.rollback_run import CheckFailed, Run
from quality_lib.jobs.rollback_start import check_replica, start_replica
from quality_lib.records import Tri
from quality_lib.rollout.capacity import capacity_problems
from quality_lib.rollout.machine import table_of
from quality_lib.rollout.moves import Move
from quality_lib.rollout.ports import RouteTable
from quality_lib.rollout.split import judge_faults, judge_split

FEW = 3
"""Core cases that each new instance is asked at each step."""

MARGIN = timedelta(seconds=0.1)
"""Logged times are rounded: what began so soon after the new weights may have gone by the old ones."""


def move_traffic(run: Run, index: int) -> str:
    """Put the move's weights into force, wait, and check what came of it.

    Raises:
        CheckFailed: a new instance is unwell, fails requests, or the split is not as set.
        OutsideFailure: the route does not answer, or somebody else has changed it.
    """
    move = run.journal.plan.moves[index]
    if move.without is not None:
        _replace(run, move)
    table = table_of(run.journal, move.weights)
    if run.real_table() != table:
        run.hear()
        _require_capacity(run, table)
    run.put(table, f"{move.name}: weights {_shown(table)}")
    run.wait(_left_of_soak(run))
    return _check(run, move, table)


def _replace(run: Run, move: Move) -> None:
    """Rolling: take one old instance out and bring its successor in, unless that is done."""
    assert move.without is not None and move.replaces is not None and move.adds is not None  # noqa: S101 - a rolling move has all three
    gone = run.journal.retired_one(move.replaces)
    if gone is None or gone.stopped_at is None:
        run.hear()
        without = table_of(run.journal, move.without)
        if run.real_table() != without:
            _require_capacity(run, without)
        run.put(without, f"'{move.replaces}' is out of traffic: weights {_shown(without)}")
        retire_one(run, move.replaces)
        stop_retired(run, move.replaces)
    replica = start_replica(run, move.adds)
    prepared = table_of(run.journal, {**move.without, move.adds: 0})
    real = run.real_table()
    if real not in {prepared, table_of(run.journal, move.weights)}:
        run.put(prepared, f"'{move.adds}' is in the route, without weight")
        real = prepared
    if real == prepared:
        check_replica(run, replica, run.journal.plan.choices.core_cases, warm=False)


def _require_capacity(run: Run, table: RouteTable) -> None:
    healthy = run.alive({b.name: b.address for b in table.backends})
    floor = run.journal.plan.choices.min_capacity
    if problems := capacity_problems(run.parts.route.table(), table, healthy, floor):
        raise CheckFailed(f"the weights were not moved: {'; '.join(problems)}")


def _left_of_soak(run: Run) -> float:
    soak = run.journal.plan.choices.soak_s
    since = run.journal.moved_at
    if since is None:
        return soak
    return max(0.0, soak - (run.parts.clock() - since).total_seconds())


def _check(run: Run, move: Move, table: RouteTable) -> str:
    fresh = {r.name: r for r in run.journal.fresh if move.weights.get(r.name, 0) > 0}
    well = run.alive({name: replica.address for name, replica in fresh.items()})
    if ill := sorted(fresh.keys() - well):
        raise CheckFailed(f"{', '.join(ill)} do not answer that they are well")
    # Before the core cases, which are sent past the weights and would count as split.
    findings = _measure(run, move, table, fresh)
    for replica in fresh.values():
        check_replica(run, replica, min(FEW, run.journal.plan.choices.core_cases), warm=False)
    return "; ".join((f"{move.name}: {_shown(table)}", *findings))


def _measure(run: Run, move: Move, table: RouteTable, fresh: dict[str, Any]) -> tuple[str, ...]:
    since = run.journal.moved_at
    if since is None:
        return ()
    try:
        served = run.parts.route.split(since + MARGIN)
    except NoData as error:
        return (f"the split could not be measured: {error}",)
    split, faults = judge_split(table, served, fresh), judge_faults(served, fresh)
    run.save(
        run.journal.with_fact(
            f"move {move.index}",
            {
                "name": move.name,
                "weights": dict(table.weights()),
                "since": since.isoformat(),
                "until": run.parts.clock().isoformat(),
                "served": {name: asdict(one) for name, one in served.items()},
                "split": {"state": split.state.value, "sentence": split.sentence},
                "faults": {"state": faults.state.value, "sentence": faults.sentence},
            },
        ),
        f"{split.sentence}; {faults.sentence}",
    )
    for finding in (faults, split):
        if finding.state is Tri.NO:
            raise CheckFailed(finding.sentence)
    return split.sentence, faults.sentence


def _shown(table: RouteTable) -> str:
    return ", ".join(f"{b.name} {b.weight} %" for b in table.backends)
