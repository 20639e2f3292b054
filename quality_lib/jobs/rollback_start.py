"""Start what is to serve, beside the old ones and without weight, and check it (R5, R10)."""

from __future__ import annotations

from dataclasses import replace

from quality_lib.adapters.engine.port import Instance
from quality_lib.errors import EngineFailed, NoData
from quality_lib.jobs import rollback_instances as instances
from quality_lib.jobs.rollback_retire import retire_one, stop_retired
from quality_lib.jobs.rollback_run import CheckFailed, Run
from quality_lib.jobs.rollback_validate import stop_staging
from quality_lib.records import Tri
from quality_lib.rollout.journal import Replica
from quality_lib.rollout.machine import prepared_table
from quality_lib.rollout.strategy import Strategy


def start_production(run: Run) -> str:
    """Start one new instance for every old one and add them to the route with weight 0.

    Raises:
        CheckFailed: one of them does not start.
    """
    strategy = run.journal.plan.strategy
    if strategy is not Strategy.SURGE:
        stop_staging(run)
    if strategy is Strategy.ROLLING:
        return "each replica starts when the one that it replaces has ended"
    run.real_table()
    if strategy is Strategy.IN_PLACE:
        _make_room(run)
    for name in run.journal.plan.fresh:
        start_replica(run, name)
    run.put(prepared_table(run.journal), "the new instances are in the route, without weight")
    count = len(run.journal.fresh)
    return f"{count} new instance{'s' if count != 1 else ''} ready, with weight 0"


def start_replica(run: Run, name: str) -> Replica:
    """Return the new instance of this name: the one that runs, the staging one, or a new one.

    Raises:
        CheckFailed: it does not start.
    """
    known = run.journal.replica(name)
    if known is not None and instances.by_id(run, known.instance_id) is not None:
        return known
    staging = _promotable(run) if run.journal.plan.strategy is Strategy.SURGE else None
    try:
        chosen = staging or instances.ensure(run, instances.FRESH, name, run.target)
    except EngineFailed as error:
        raise CheckFailed(f"the new instance '{name}' does not start: {error}") from error
    replica = Replica(name, chosen.id, instances.address_of(chosen))
    what = "the staging instance becomes" if staging else f"instance {chosen.id} is"
    run.save(run.journal.with_replica(replica), f"{what} '{name}' at {replica.address}")
    return replica


def check_production(run: Run) -> str:
    """Warm every new instance up and ask it the core cases, past the weights.

    Raises:
        CheckFailed: one does not answer as it should.
        NoData: nothing could be judged; worth another try.
    """
    if run.journal.plan.strategy is Strategy.ROLLING:
        return "each replica is checked as it comes"
    headlines = [
        check_replica(run, replica, run.journal.plan.choices.core_cases)
        for replica in run.journal.fresh
    ]
    return "; ".join(headlines)


def check_replica(run: Run, replica: Replica, cases: int, *, warm: bool = True) -> str:
    """Ask one new instance so many core cases, through the route where that can lead to it.

    Raises:
        CheckFailed: it does not answer as it should, or is gone.
        NoData: nothing could be judged; worth another try.
    """
    run.hear()
    instance = instances.by_id(run, replica.instance_id)
    if instance is None:
        raise CheckFailed(f"the new instance '{replica.name}' is gone")
    try:
        if warm:
            run.parts.engine.warm_up(instance)
    except EngineFailed as error:
        raise CheckFailed(str(error)) from error
    headers = run.parts.route.straight(replica.name)
    endpoint = run.parts.service.endpoint if headers else instance.endpoint
    found = run.parts.examiner.core(
        run.target, endpoint, headers, run.path(f"core-{replica.name}"), cases
    )
    run.save(
        run.journal.with_fact(f"core {replica.name}", {"headline": found.headline, **found.detail}),
        f"core cases on '{replica.name}': {found.headline}",
    )
    if found.state is Tri.NO:
        raise CheckFailed(f"'{replica.name}' fails its core cases: {found.headline}")
    if found.state is Tri.UNKNOWN:
        raise NoData(f"the core cases on '{replica.name}' could not be judged: {found.headline}")
    return f"'{replica.name}': {found.headline}"


def _promotable(run: Run) -> Instance | None:
    """Return the staging instance of the target if it serves nowhere yet.

    On this machine it has the same hardware, arguments and weights, so it is what would be started.
    """
    promoted = {replica.instance_id for replica in run.journal.fresh}
    for instance in instances.of_incident(run, instances.STAGING):
        is_targets = instance.labels.get("snapshot") == run.target.snapshot_id
        if is_targets and instance.id not in promoted and instances.by_id(run, instance.id):
            return instance
    return None


def _make_room(run: Run) -> None:
    """In place: the outage begins here; what fails from here on starts the old one again."""
    for name in run.journal.plan.old:
        known = run.journal.retired_one(name)
        if known is not None and known.stopped_at is not None:
            continue
        run.save(
            replace(run.journal, state="rolling"),
            f"OUTAGE: '{name}' ends now; expected length: "
            + (
                "unknown"
                if run.journal.plan.outage_s is None
                else f"{run.journal.plan.outage_s:.0f} s"
            ),
        )
        retire_one(run, name, drain=False)
        stop_retired(run, name)
