"""Go back: the starting weights, or what is left of who served by them (R5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quality_lib.adapters.engine.port import Instance
from quality_lib.errors import EngineFailed, QualityError
from quality_lib.jobs import rollback_instances as instances
from quality_lib.jobs.rollback_finish import close, tell_who_serves
from quality_lib.jobs.rollback_run import Run, request_of
from quality_lib.rollout.journal import Journal, State
from quality_lib.rollout.machine import way_back
from quality_lib.rollout.moves import serving_names


def abort(run: Run, by: str, reason: str) -> str:
    """Put the starting weights back, end what this rollback has started, close the incident.

    Raises:
        OutsideFailure: the route does not answer; nothing was ended and the same command goes on.
    """
    run.is_going_back = True
    if run.journal.abort is None:
        request = request_of(run, by, reason)
        run.save(replace(run.journal, abort=request), f"abort by {request.by}: {request.reason}")
    sentence, keeps = _go_back(run)
    for instance in instances.of_incident(run):
        promoted = {r.instance_id: r.name for r in run.journal.fresh}
        is_restored = instance.labels.get("role") == instances.RESTORED
        if not is_restored and promoted.get(instance.id) not in keeps:
            instances.stop_instance(run, instance)
    is_no_target = run.journal.bad is not None and run.journal.bad.is_no_target
    run.tell(sentence)
    _close(run, "failed" if is_no_target else "aborted")
    return sentence


def _go_back(run: Run) -> tuple[str, frozenset[str]]:
    if not _was_touched(run.journal):
        return "the route was never touched", frozenset()
    _start_again(run)
    back = way_back(run.journal, run.alive(run.journal.addresses))
    if back.table is None:
        # Ending what is left would not help anybody.
        return back.sentence, frozenset(run.journal.plan.fresh)
    weights = back.table.weights()
    run.put(back.table, f"{back.sentence}: {_shown(weights)}")
    if {name for name, weight in weights.items() if weight > 0} <= back.keeps:
        tell_who_serves(run)
    return back.sentence, back.keeps


def _was_touched(journal: Journal) -> bool:
    """Whether an effect on who serves was made or only begun: a kill may hide that it was made."""
    began = any("weights" in event.detail for event in journal.events)
    return journal.table is not None or began or bool(journal.retired)


def _start_again(run: Run) -> None:
    """Start an old instance again that this rollback has stopped and nobody stands in for."""
    serving = serving_names(run.journal.plan.starting.weights())
    stand_ins = dict(zip(serving, run.journal.plan.fresh, strict=True))
    alive = run.alive(run.journal.addresses)
    for one in run.journal.retired:
        is_needed = one.name not in alive and stand_ins.get(one.name) not in alive
        # Not what the journal says of its end: a kill may have come between the end and the note.
        if one.relaunch is None or not is_needed:
            continue
        replica = run.journal.replica(stand_ins[one.name])
        failed = instances.by_id(run, replica.instance_id) if replica else None
        for instance in (failed, *_unfinished(run, stand_ins[one.name])):
            if instance is not None:
                instances.stop_instance(run, instance, 0.0)  # its memory is needed
        try:
            instances.restore(run, one.name, one.address, one.relaunch)
            run.tell(f"'{one.name}' runs again")
        except EngineFailed as error:
            run.tell(f"'{one.name}' cannot be started again: {error}")


def _unfinished(run: Run, name: str) -> tuple[Instance, ...]:
    return tuple(
        i
        for i in instances.of_incident(run, instances.FRESH)
        if i.labels.get("backend") == name and run.journal.replica(name) is None
    )


def _close(run: Run, state: State) -> None:
    """Close an aborted incident also when its post-mortem cannot be published now."""
    try:
        close(run, state)
    except QualityError as error:
        run.save(
            replace(run.journal, state=state, closed_at=run.parts.clock()),
            f"the post-mortem could not be published: {error}",
        )
        run.tell_store()


def _shown(weights: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {weight} %" for name, weight in weights.items())
