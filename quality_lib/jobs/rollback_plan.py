"""Plan a rollback: what it would go back to, how, and what it costs. Plans touch nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from quality_lib.adapters.files.journal import IncidentFolder, Incidents
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.jobs.rollback_run import incident_record
from quality_lib.jobs.rollback_validate import weights_folder
from quality_lib.rollout.incident import IncidentHistory, IncidentRecord, incident_id
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.plan import Candidate, Choices, Costs, Plan, make_plan
from quality_lib.rollout.strategy import StepName, Strategy
from quality_lib.rollout.target import candidates, condemned
from quality_lib.snapshots.ports import SnapshotEntry


@dataclass(frozen=True)
class Wishes:
    """What the caller asks for; ``None`` leaves it to the configuration."""

    target: str | None = None
    incident: str | None = None
    strategy: str | None = None
    step_percent: int | None = None
    soak_s: float | None = None
    mode: str | None = None
    reason: str = ""
    by: str = ""


def plan_rollback(
    parts: Parts, wishes: Wishes, *, is_dry_run: bool = False
) -> tuple[Journal, IncidentFolder | None]:
    """Plan and, without ``is_dry_run``, open the incident; the same incident again returns its plan.

    Raises:
        BadInput: another incident is in progress, this one is closed, or the plan cannot be made.
        OutsideFailure: the route or a store does not answer, or another process is at work.
    """
    incidents = Incidents(parts.work_dir, parts.service_name)
    if is_dry_run:
        current = _in_progress(incidents, wishes)
        return (current[1] if current else _draft(parts, wishes, incidents)), None
    with incidents.locked():
        current = _in_progress(incidents, wishes)
        if current is not None:
            return current[1], current[0]
        journal = _draft(parts, wishes, incidents)
        if journal.mode == "alert-only":
            raise BadInput(
                f"the mode of '{parts.service_name}' is alert-only: nothing is ever moved",
                field="rollback.mode",
                fix="pass another --mode, or --dry-run to see what would happen",
            )
        folder = incidents.folder(journal.incident_id)
        parts.incidents.open(incident_record(journal), {"reason": journal.reason, "by": journal.by})
        return folder.write(journal, parts.clock()), folder


def _in_progress(incidents: Incidents, wishes: Wishes) -> tuple[IncidentFolder, Journal] | None:
    """Return the incident in progress, if it is the one that is asked for or none is named."""
    current = incidents.open()
    if current is None or wishes.incident in {None, current[1].incident_id}:
        return current
    raise BadInput(
        f"incident '{current[1].incident_id}' of '{current[1].service}' is in progress",
        fix="'quality rollback status' shows it; end it with 'quality rollback abort'",
    )


def _draft(parts: Parts, wishes: Wishes, incidents: Incidents) -> Journal:
    name = parts.service_name
    if parts.service.engine.kind != "local":
        raise BadInput(
            f"engine.kind of '{name}' is '{parts.service.engine.kind}': this product cannot start or "
            "stop its instances",
            field="engine.kind",
            fix="use 'local', or rollback.mode 'alert-only'",
        )
    history = IncidentHistory.of(name, parts.incidents.history(name))
    record = _record(parts, wishes.incident, history, incidents)
    key = record.bad_deployment_key if record is not None else _deployment_key(parts)
    identity = wishes.incident or (
        record.incident_id if record else incident_id(name, key, history)
    )
    folder = incidents.folder(identity)
    if folder.exists or (record is not None and record.is_closed):
        raise BadInput(
            f"incident '{identity}' is closed",
            fix="leave --incident out: a new incident gets a new id",
        )
    entries = parts.snapshots.list(name)
    bad = next((e.snapshot_id for e in entries if e.deployment_key == key), None)
    found = candidates(
        entries,
        bad_deployment_key=key,
        bad_snapshot_ids=() if wishes.target else condemned(entries, history),
        asked_ref=wishes.target,
    )
    settings = parts.service.rollback
    choices = Choices(
        strategy=Strategy(wishes.strategy or settings.strategy),
        step_percent=wishes.step_percent or settings.step_percent,
        soak_s=settings.soak_s if wishes.soak_s is None else wishes.soak_s,
        staging=settings.staging,
        min_capacity=settings.min_capacity,
        core_cases=settings.core_cases,
        keep_retired_minutes=settings.keep_retired_minutes,
        drain_timeout_s=settings.drain_timeout_s,
    )
    plan = make_plan(
        identity,
        parts.route.table(),
        [Candidate(e.snapshot_id, e.number, e.created_at) for e in found],
        choices,
        _costs(parts, found, incidents),
    )
    return Journal(
        incident_id=identity,
        service=name,
        plan=plan,
        mode=wishes.mode or (record.mode if record else settings.mode),
        reason=wishes.reason or (record.reason if record else "asked for by hand"),
        by=wishes.by or "unknown",
        opened_at=record.opened_at if record else parts.clock(),
        bad_deployment_key=key,
        bad_snapshot_id=record.bad_snapshot_id if record and record.bad_snapshot_id else bad,
    )


def _record(
    parts: Parts, identity: str | None, history: IncidentHistory, incidents: Incidents
) -> IncidentRecord | None:
    """Return the incident that was decided and is to be carried out; ``None``: a person begins one.

    Raises:
        BadInput: another one is in progress.
    """
    current = history.in_progress
    if current is not None:
        folder = incidents.folder(current.incident_id)
        if folder.exists and folder.read().is_closed:
            current = None  # closed here, and the store could not be told: 'reconcile' tells it
    if identity is None or current is None or current.incident_id == identity:
        return current if identity is None else parts.incidents.find(identity)
    raise BadInput(
        f"incident '{current.incident_id}' of '{current.service}' is in progress",
        fix="leave --incident out to go on with it",
    )


def _deployment_key(parts: Parts) -> str | None:
    """Return what serves; a server that is too ill to say leaves it unknown."""
    try:
        return parts.deployment_key()
    except OutsideFailure as error:
        parts.note(f"what serves now could not be seen: {error}")
        return None


def _costs(parts: Parts, found: Iterable[SnapshotEntry], incidents: Incidents) -> Costs:
    """Return what starts and checks took here before."""
    start = None
    for entry in found:
        try:
            folder = weights_folder(parts.snapshots.get(parts.service_name, entry.snapshot_id))
        except BadInput:
            continue
        start = parts.engine.startup_seconds(folder)
        break
    if start is None:
        start = parts.engine.startup_seconds(Path(parts.service.weights))
    journals = [journal for _, journal in incidents.journals()]
    validate = _seconds(journals, StepName.VALIDATE)
    check = _seconds(journals, StepName.CHECK)
    known = [
        f"{what} {value:.0f} s"
        for what, value in (("start", start), ("validation", validate), ("core check", check))
        if value is not None
    ]
    source = f"measured here before: {', '.join(known)}" if known else Costs().source
    if start is not None and validate is not None:
        validate = max(0.0, validate - start)
    return Costs(start, validate, check, source)


def _seconds(journals: Iterable[Journal], step: StepName) -> float | None:
    """Return how long a step took the last time that it was done in earnest."""
    times = (
        done.seconds
        for journal in journals
        if journal.plan.strategy is Strategy.SURGE and journal.plan.choices.staging == "instance"
        for done in journal.done
        if done.step is step
    )
    return next(times, None)


def lines(plan: Plan) -> list[str]:
    """Return the plan for a person, a line each."""
    shown = [plan.headline, f"capacity: {plan.capacity}", f"times: {plan.costs.source}"]
    for number, step in enumerate(plan.steps, 1):
        took = "not measured yet" if step.expected_s is None else f"about {step.expected_s:.0f} s"
        shown.append(f"{number}. {step.name:<9}{step.what} ({took})")
        if step.name == StepName.MOVE.value:
            for move in plan.moves:
                weights = ", ".join(f"{n} {w} %" for n, w in move.weights.items())
                shown.append(f"     {move.name:>14}: {weights}")
    total = plan.expected_s
    shown.append(
        "in all: not known yet, a part was never measured here"
        if total is None
        else f"in all: about {total:.0f} s"
    )
    start = ", ".join(f"{b.name} {b.address} {b.weight} %" for b in plan.starting.backends)
    shown.append(f"an abort goes back to: {start}")
    return shown
