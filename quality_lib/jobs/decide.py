"""Decide whether a service goes back: gather the evidence, judge it, write down what acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quality_lib import wiring
from quality_lib.errors import QualityError
from quality_lib.golden.result import TrendPoint
from quality_lib.jobs.clock import Clock, Note, utc_now
from quality_lib.jobs.deployment import observe_deployment
from quality_lib.jobs.rollback_left import find_left_behind
from quality_lib.rollout.decision import Action, Decision, decide
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.evidence import Evidence, last_change
from quality_lib.rollout.incident import IncidentHistory, IncidentRecord
from quality_lib.rollout.left_behind import LeftBehind
from quality_lib.rollout.limits import RollbackLimits
from quality_lib.rollout.policy import substituted
from quality_lib.rollout.ports import IncidentStore
from quality_lib.scoring.result import Depth
from quality_lib.settings import ServiceSettings, Settings
from quality_lib.snapshots.ports import SERVING, SnapshotEntry

GOLDEN_READ = 48
"""Golden runs that are read: two days of hourly ones, to see when the deployment changed."""
GOLDEN_SHOWN = 12
SCORES_READ = 12
INCIDENTS_READ = 1000


@dataclass(frozen=True)
class Gathered:
    """What a decision is made from."""

    evidence: Evidence
    history: IncidentHistory
    entries: tuple[SnapshotEntry, ...]
    problems: tuple[str, ...]
    """What could not be asked, for people; the decision treats it as unknown."""
    left: LeftBehind | None = None
    """The incident in progress, where nobody works on it any more."""


@dataclass(frozen=True)
class Decided:
    """A decision with what it was made from."""

    decision: Decision
    gathered: Gathered
    limits: RollbackLimits
    is_dry_run: bool
    incident: IncidentRecord | None = None
    """What the store keeps of it; None when nothing was recorded."""


def decide_service(
    settings: Settings,
    service_name: str,
    *,
    is_dry_run: bool = False,
    clock: Clock = utc_now,
    note: Note = lambda _: None,
) -> Decided:
    """Decide, and open the incident of a rollback; with ``is_dry_run`` nothing is written.

    Deciding again while an incident is open names the same one and opens no second.

    Raises:
        OutsideFailure: MLflow does not answer; without the history nothing may be decided.
    """
    service = settings.service(service_name)
    store = wiring.incident_store(settings)
    gathered = gather(settings, service_name, store=store, clock=clock, note=note)
    limits = rollback_limits(service)
    decision = decide(
        gathered.evidence,
        service.rollback.triggers,
        gathered.history,
        limits,
        gathered.entries,
        gathered.left,
    )
    decided = Decided(decision, gathered, limits, is_dry_run)
    if decision.action is not Action.ROLLBACK or is_dry_run:
        return decided
    if (going_on := gathered.history.in_progress) is not None:
        return dataclasses.replace(decided, incident=going_on)
    kept = store.open(_incident(decision, gathered.evidence.now), record_of(decided))
    return dataclasses.replace(decided, incident=kept)


def gather(
    settings: Settings,
    service_name: str,
    *,
    store: IncidentStore,
    clock: Clock = utc_now,
    note: Note = lambda _: None,
) -> Gathered:
    """Read everything that is known of a service; a server that does not answer hides nothing else."""
    # Times are kept to the second, so that a signal read in the same second is no older.
    observed_at = clock().replace(microsecond=0)
    note("reading golden runs, scores, snapshots and incidents")
    golden = tuple(reversed(wiring.result_store(settings).history(service_name, GOLDEN_READ)))
    scores = wiring.score_store(settings).history(service_name, Depth.QUICK, SCORES_READ)
    entries = wiring.snapshot_store(settings).list(service_name)
    history = IncidentHistory.of(service_name, store.history(service_name, INCIDENTS_READ))
    note("looking at the server")
    problems: list[str] = []
    key = _deployment_key(settings.service(service_name), golden, problems, note)
    signals = _signals(settings, service_name, problems)
    serving = [entry.snapshot_id for entry in entries if SERVING in entry.aliases]
    evidence = Evidence(
        service=service_name,
        now=clock(),
        golden=golden[:GOLDEN_SHOWN],
        scores=tuple(reversed(scores)),
        signals=signals,
        serving_snapshot_id=serving[0] if serving else None,
        deployment_key=key,
        last_change_at=last_change(golden, key, history.last_end, observed_at),
    )
    left = find_left_behind(settings, service_name, history.in_progress, evidence.now)
    return Gathered(evidence, history, entries, tuple(problems), left)


def rollback_limits(service: ServiceSettings) -> RollbackLimits:
    """Return what holds a rollback of the service back."""
    chosen = service.rollback
    return RollbackLimits(
        mode=chosen.mode,
        cool_down_minutes=chosen.cool_down_minutes,
        daily_limit=chosen.daily_limit,
        approval_timeout_minutes=chosen.approval_timeout_minutes,
        has_route=service.route.kind != "none",
    )


def record_of(decided: Decided) -> Mapping[str, Any]:
    """Return a decision with every input as plain values: what ``--json`` prints and MLflow keeps."""
    decision, evidence = decided.decision, decided.gathered.evidence
    states = {condition.name: condition.state for condition in decision.conditions}
    history, limits = decided.gathered.history, decided.limits
    going_on = history.in_progress
    return {
        "service": decision.service,
        "action": decision.action.value,
        "incident_id": decision.incident_id,
        "mode": decision.mode,
        "policy": decision.policy,
        "policy_state": decision.policy_state.value,
        "policy_values": substituted(decision.policy, states),
        "conditions": [
            {
                "name": condition.name,
                "state": condition.state.value,
                "sentence": condition.sentence,
                "inputs": [dict(one) for one in condition.inputs],
            }
            for condition in decision.conditions
        ],
        "reasons": [reason.sentence for reason in decision.reasons],
        "reason_codes": [reason.code for reason in decision.reasons],
        "headline": decision.headline,
        "dry_run": decided.is_dry_run,
        "decided_at": evidence.now.isoformat(),
        "deployment_key": evidence.deployment_key,
        "serving_snapshot_id": evidence.serving_snapshot_id,
        "bad_snapshot_id": decision.bad_snapshot_id,
        "target_snapshot_id": decision.target_snapshot_id,
        "last_change_at": _text(evidence.last_change_at),
        "incident_url": decided.incident.url if decided.incident else "",
        "history": {
            "in_progress": going_on.incident_id if going_on else None,
            "left_behind": _left(decided.gathered.left),
            "cool_down_until": _text(history.cool_down_until(limits.cool_down_minutes)),
            "within_24_hours": history.opened_within(evidence.now),
            "daily_limit": limits.daily_limit,
        },
        "problems": list(decided.gathered.problems),
    }


def _deployment_key(
    service: ServiceSettings, golden: tuple[TrendPoint, ...], problems: list[str], note: Note
) -> str | None:
    """Return the key of what serves: the server's own word, else the newest golden run's."""
    try:
        return observe_deployment(service, note).key
    except QualityError as error:
        known = next((run.deployment_key for run in golden if run.deployment_key), None)
        told = "the deployment of the newest golden run is taken" if known else "nothing is known"
        problems.append(f"what serves could not be asked ({error}); {told}")
        return known


def _signals(
    settings: Settings, service_name: str, problems: list[str]
) -> tuple[EngineFinding, ...]:
    try:
        return tuple(wiring.engine_findings(settings, service_name))
    except QualityError as error:
        problems.append(f"the engine's signals could not be read ({error})")
        return ()


def _incident(decision: Decision, now: datetime) -> IncidentRecord:
    return IncidentRecord(
        incident_id=decision.incident_id or "",
        service=decision.service,
        state="open",
        opened_at=now,
        closed_at=None,
        bad_deployment_key=decision.bad_deployment_key,
        bad_snapshot_id=decision.bad_snapshot_id,
        target_snapshot_id=decision.target_snapshot_id,
        mode=decision.mode,
        reason=decision.headline,
    )


def _left(found: LeftBehind | None) -> Mapping[str, Any] | None:
    if found is None:
        return None
    return {
        "incident_id": found.incident_id,
        "end": found.end,
        "next": found.next,
        "quiet_s": found.quiet.total_seconds(),
        "command": found.command,
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None
