"""Let an old instance go: drained, its evidence kept, and only then stopped (R6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quality_lib.errors import QualityError
from quality_lib.jobs import rollback_instances as instances
from quality_lib.jobs.rollback_run import Run
from quality_lib.rollout.journal import Retired
from quality_lib.rollout.ports import RouteTable
from quality_lib.rollout.strategy import Strategy

POLL_S = 1.0


def retire(run: Run) -> str:
    """Let the old instances finish, keep their evidence, and stop them or keep them for a while."""
    if run.journal.plan.strategy is not Strategy.SURGE:
        return "the old instances have ended before"
    old = run.journal.plan.old
    run.real_table()
    for name in old:
        retire_one(run, name)
    minutes = run.journal.plan.choices.keep_retired_minutes
    if minutes > 0:
        until = run.parts.clock() + timedelta(minutes=minutes)
        for name in old:
            _keep(run, name, until.isoformat(timespec="seconds"), minutes)
        return f"{', '.join(old)} kept out of traffic until {until:%H:%M} UTC"
    _end(run, old)
    return f"{', '.join(old)} ended"


def end_overdue(run: Run) -> tuple[str, ...]:
    """Stop the old instances that were kept long enough; return their names.

    One that has got traffic again, by whomever, is left alone.
    """
    now = run.parts.clock()
    in_use = {b.address for b in run.parts.route.table().backends if b.weight > 0}
    due = tuple(
        one.name
        for one in run.journal.retired
        if one.stopped_at is None
        and one.stop_after is not None
        and one.stop_after <= now
        and one.address not in in_use
    )
    if due:
        _end(run, due)
    return due


def retire_one(run: Run, name: str, *, drain: bool = True) -> Retired:
    """Wait for an old instance's requests and keep its evidence; what is done is not done again.

    Evidence that cannot be collected is told and delays nothing.
    """
    known = run.journal.retired_one(name)
    if known is not None and known.evidence is not None:
        return known
    address = run.journal.addresses[name]
    if drain:
        _drain(run, name)
    instance = instances.at_address(run, address)
    if known is None:
        known = Retired(
            name,
            address,
            instance.id if instance else None,
            instances.relaunch_of(run, instance) if instance else None,
        )
    evidence: dict[str, object] = {}
    if instance is not None:
        try:
            evidence = dict(run.parts.collect(instance, run.journal, run.path(f"evidence/{name}")))
        except QualityError as error:
            evidence = {"problem": str(error)}
    else:
        evidence = {"problem": "it is no instance of this machine's, so nothing was collected"}
    known = replace(known, evidence=evidence)
    problem = f", not whole: {evidence['problem']}" if evidence.get("problem") else ""
    run.save(run.journal.with_retired(known), f"evidence of '{name}' is kept{problem}")
    return known


def stop_retired(run: Run, name: str) -> None:
    """Stop an old instance that has no traffic; one of somebody else's stays and that is said."""
    known = run.journal.retired_one(name)
    if known is None or known.stopped_at is not None:
        return
    instance = instances.at_address(run, known.address)
    if instance is not None and instance.id == known.instance_id:
        instances.stop_instance(run, instance)
        what = f"'{name}' is stopped"
    elif known.instance_id is None:
        what = f"'{name}' at {known.address} is not ours to stop: end it where it was started"
    else:
        what = f"'{name}' had ended by itself"
    stopped = replace(known, stopped_at=run.parts.clock())
    run.save(run.journal.with_retired(stopped), what)


def _end(run: Run, names: tuple[str, ...]) -> None:
    """Take old instances out of the table first: nobody must be led to one that ends."""
    real = run.parts.route.table()
    left = tuple(b for b in real.backends if b.name not in names or b.weight > 0)
    mirror = real.mirror if real.mirror in {b.name for b in left} else None
    table = RouteTable(real.service, left, mirror, real.mirror_percent)
    run.put(table, f"{', '.join(names)} left the route")
    for name in names:
        stop_retired(run, name)


def _keep(run: Run, name: str, until: str, minutes: float) -> None:
    known = run.journal.retired_one(name)
    if known is not None and known.stop_after is None and known.stopped_at is None:
        after = run.parts.clock() + timedelta(minutes=minutes)
        run.save(
            run.journal.with_retired(replace(known, stop_after=after)),
            f"'{name}' is kept, out of traffic, until {until}",
        )


def _drain(run: Run, name: str) -> None:
    end = run.parts.clock() + timedelta(seconds=run.journal.plan.choices.drain_timeout_s)
    while True:
        left = run.parts.route.in_flight(name)
        if left == 0:
            run.parts.note(f"'{name}' has no request left")
            return
        if left is None:
            # The server itself still waits for its requests when it is stopped.
            run.parts.note(f"nobody can tell how many requests '{name}' still has")
            return
        if run.parts.clock() >= end:
            run.tell(f"'{name}' still has {left} requests; the time to drain is over", left=left)
            return
        run.wait(POLL_S)
