"""Whether a service goes back: the policy over the conditions, and what holds a rollback back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from quality_lib.records import Tri
from quality_lib.rollout.condition import Condition, Note
from quality_lib.rollout.engine_condition import judge_engine
from quality_lib.rollout.evidence import Evidence, clock, span
from quality_lib.rollout.golden_condition import judge_golden
from quality_lib.rollout.incident import DAY, IncidentHistory, IncidentRecord, incident_id
from quality_lib.rollout.left_behind import LeftBehind
from quality_lib.rollout.limits import RollbackLimits, TriggerLimits
from quality_lib.rollout.log_condition import judge_log
from quality_lib.rollout.policy import evaluate, parse_policy
from quality_lib.rollout.target import candidates, condemned
from quality_lib.snapshots.ports import SnapshotEntry


class Action(StrEnum):
    """What is to be done."""

    NONE = "none"
    WAIT = "wait"
    """Nothing speaks of damage, and too little is known to say that there is none."""
    ALERT = "alert"
    """A person should look: bad, and no rollback can or may start."""
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class Decision:
    """What was decided, and everything it was decided from."""

    service: str
    action: Action
    incident_id: str | None
    """Of the incident in progress, or of the one that this decision is about; None where there is
    none."""
    mode: str
    policy: str
    policy_state: Tri
    conditions: tuple[Condition, ...]
    reasons: tuple[Note, ...]
    """Why this action; of a suppressed rollback every reason that suppresses it."""
    headline: str
    target_snapshot_id: str | None = None
    """What would be tried first."""
    bad_deployment_key: str | None = None
    bad_snapshot_id: str | None = None


def decide(
    evidence: Evidence,
    limits: TriggerLimits,
    history: IncidentHistory,
    settings: RollbackLimits,
    entries: Sequence[SnapshotEntry] = (),
    left: LeftBehind | None = None,
) -> Decision:
    """Decide what to do with a service; ``entries`` are its snapshots.

    ``left``: the incident in progress, where nobody works on it any more. It stands in the way of every
    later rollback, so a person is told, whatever the evidence says.

    The same evidence and history give the same decision, down to the incident's id.
    """
    conditions = (
        judge_golden(evidence, limits),
        judge_log(evidence, limits),
        judge_engine(evidence, limits),
    )
    states = {condition.name: condition.state for condition in conditions}
    policy_state = evaluate(parse_policy(limits.policy), states)
    targets = candidates(
        entries,
        bad_deployment_key=evidence.deployment_key,
        bad_snapshot_ids=condemned(entries, history),
    )
    going_on = history.in_progress
    named = going_on.incident_id if going_on else None
    if policy_state is Tri.YES:
        reasons = _suppressions(evidence, history, settings, entries, bool(targets))
        action = _action_of(going_on, evidence, settings, reasons)
        named = named or incident_id(evidence.service, evidence.deployment_key, history)
    elif policy_state is Tri.UNKNOWN and Tri.YES in states.values():
        reasons = (_partly_known(conditions),)
        action = Action.NONE if going_on else Action.ALERT
        if going_on:
            reasons += (_incident_open(going_on),)
        named = named or incident_id(evidence.service, evidence.deployment_key, history)
    elif policy_state is Tri.UNKNOWN:
        action, reasons = Action.WAIT, (_unknown(conditions),)
    else:
        action, reasons = Action.NONE, _contradicted(conditions)
    if left is not None:
        # Also where it is decided again: whoever begins it finds it begun, or ended.
        action, reasons = Action.ALERT, (Note("left_behind", left.sentence), *reasons)
        named = left.incident_id
    reasons += tuple(note for condition in conditions for note in condition.notes)
    return Decision(
        service=evidence.service,
        action=action,
        incident_id=named,
        mode=settings.mode,
        policy=limits.policy,
        policy_state=policy_state,
        conditions=conditions,
        reasons=reasons,
        headline=_headline(evidence.service, action, policy_state, reasons, conditions),
        target_snapshot_id=targets[0].snapshot_id if targets else None,
        bad_deployment_key=evidence.deployment_key,
        bad_snapshot_id=_registered(entries, evidence.deployment_key),
    )


def _suppressions(
    evidence: Evidence,
    history: IncidentHistory,
    settings: RollbackLimits,
    entries: Sequence[SnapshotEntry],
    has_target: bool,
) -> tuple[Note, ...]:
    """Return every reason that a rollback which the evidence calls for must not start."""
    found: list[Note] = []
    going_on, now = history.in_progress, evidence.now
    if going_on is not None:
        # What it had to pass, it has passed when it was opened.
        return (_incident_open(going_on),)
    if settings.mode == "alert-only":
        found.append(Note("alert_only", "mode alert-only: rollbacks are started by people"))
    elif not settings.has_route:
        found.append(Note("no_route", "no route is configured, so no traffic can be moved"))
    if not has_target:
        told = "no other healthy snapshot to go back to" if entries else "no snapshot is registered"
        found.append(Note("no_target", told))
    until = history.cool_down_until(settings.cool_down_minutes)
    if until is not None and now < until:
        left = span(until - now)
        found.append(Note("cool_down", f"cooling down until {clock(until)} ({left} more)"))
    today = history.opened_within(now, DAY)
    if today >= settings.daily_limit:
        told = f"{today} rollbacks within 24 hours, allowed are {settings.daily_limit}"
        found.append(Note("daily_limit", told))
    return tuple(found)


def _action_of(
    going_on: IncidentRecord | None,
    evidence: Evidence,
    settings: RollbackLimits,
    reasons: tuple[Note, ...],
) -> Action:
    """Return the action where the policy says yes."""
    if going_on is None:
        return Action.ALERT if reasons else Action.ROLLBACK
    if going_on.state != "open":
        return Action.NONE
    # Decided, and nobody has begun: whoever decided may have died before starting it. Saying it again
    # under the same id starts it at most once; after the time-out a person has to look.
    waited = evidence.now - going_on.opened_at
    is_forgotten = waited > timedelta(minutes=settings.approval_timeout_minutes)
    return Action.ALERT if is_forgotten else Action.ROLLBACK


def _incident_open(record: IncidentRecord) -> Note:
    doing = "under way" if record.state == "rolling" else "decided and not begun"
    told = f"incident {record.incident_id} is {doing}, opened {clock(record.opened_at)}"
    return Note("incident_open", told)


def _partly_known(conditions: tuple[Condition, ...]) -> Note:
    bad = ", ".join(c.name for c in conditions if c.state is Tri.YES)
    missing = ", ".join(c.name for c in conditions if c.state is Tri.UNKNOWN)
    return Note("partly_known", f"{bad} holds and {missing} is not known: a person should look")


def _unknown(conditions: tuple[Condition, ...]) -> Note:
    missing = [c for c in conditions if c.state is Tri.UNKNOWN]
    return Note("unknown", "; ".join(f"{c.name} is not known: {c.sentence}" for c in missing))


def _contradicted(conditions: tuple[Condition, ...]) -> tuple[Note, ...]:
    """Say which conditions hold although the policy does not; nothing where none does."""
    return tuple(
        Note("not_enough", f"{c.name} holds, which alone is not enough: {c.sentence}")
        for c in conditions
        if c.state is Tri.YES
    )


def _registered(entries: Sequence[SnapshotEntry], key: str | None) -> str | None:
    """Return the newest snapshot of the deployment; None for one that was never registered."""
    own = [entry for entry in entries if key is not None and entry.deployment_key == key]
    return max(own, key=lambda entry: entry.number).snapshot_id if own else None


def _headline(
    service: str,
    action: Action,
    policy_state: Tri,
    reasons: tuple[Note, ...],
    conditions: tuple[Condition, ...],
) -> str:
    bad = "; ".join(f"{c.name}: {c.sentence}" for c in conditions if c.state is Tri.YES)
    first = reasons[0].sentence if reasons else ""
    if action is Action.ROLLBACK:
        return f"{service}: roll back. {bad}"
    if action is Action.ALERT:
        told = f"{service}: bad, and no rollback starts" if policy_state is Tri.YES else service
        return f"{told}: {first}. {bad}" if bad else f"{told}: {first}"
    if action is Action.WAIT:
        return f"{service}: not known. {first}"
    return f"{service}: nothing to do" + (f". {first}" if first else "")
