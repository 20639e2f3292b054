"""After the traffic has moved: is the service well, and what is to be remembered of it (R2, R8)."""

from __future__ import annotations

from dataclasses import replace

from quality_lib.errors import BadInput, NoData, QualityError
from quality_lib.jobs.rollback_run import CheckFailed, Run, incident_record
from quality_lib.records import Tri
from quality_lib.rollout.journal import State
from quality_lib.snapshots.ports import LAST_HEALTHY, SERVING, Health


def recover(run: Run) -> str:
    """Ask the core cases as a user would, then say in the snapshot store what serves now.

    Raises:
        CheckFailed: the service is not well although its new instances were.
        NoData: nothing could be judged; worth another try.
    """
    cases = run.journal.plan.choices.core_cases
    found = run.parts.examiner.core(
        run.target, run.parts.service.endpoint, {}, run.path("core-route"), cases
    )
    run.save(
        run.journal.with_fact("core route", {"headline": found.headline, **found.detail}),
        f"core cases through the route: {found.headline}",
    )
    if found.state is Tri.NO:
        raise CheckFailed(f"through the route the service is not well: {found.headline}")
    if found.state is Tri.UNKNOWN:
        raise NoData(f"through the route nothing could be judged: {found.headline}")
    _mark(run)
    return f"snapshot {run.target.snapshot_id[:12]} serves: {found.headline}"


def report(run: Run) -> str:
    """Write the post-mortem and close the incident."""
    run.save(run.journal, "the rollback is done")
    close(run, "done")
    told = dict(run.journal.facts.get("post-mortem") or {})
    if problem := told.get("problem"):
        # The incident is over all the same: held open, it would stand in the way of the next one.
        return f"the incident is closed; its post-mortem lies only at {told.get('page')}: {problem}"
    return f"the incident is closed{f'; post-mortem: {run.journal.url}' if run.journal.url else ''}"


def close(run: Run, state: State) -> None:
    """Write the post-mortem of an incident that ends in this state, then close it.

    The journal is closed last: what is told twice is told once, what is closed here is not told again.
    """
    ended = replace(run.journal, state=state, closed_at=run.parts.clock())
    published = run.parts.report(ended, run.folder.path)
    ended = replace(ended, url=str(published.get("url") or ""))
    run.parts.incidents.update(incident_record(ended))
    run.save(ended.with_fact("post-mortem", dict(published)))


def tell_who_serves(run: Run) -> None:
    """Say that the target serves although the rollback was aborted; a silent store delays nothing.

    Else the next golden run would hold its answers against the bad snapshot's.
    """
    try:
        _point(run, SERVING)
    except QualityError as error:
        short = run.target.snapshot_id[:12]
        run.tell(
            f"the alias '{SERVING}' could not be moved ({error}): quality snapshot alias {SERVING} "
            f"{short} --service {run.journal.service}"
        )


def _point(run: Run, alias: str) -> None:
    store, journal, target = run.parts.snapshots, run.journal, run.target.snapshot_id
    if store.aliases(journal.service).get(alias) != target:
        reason = f"rollback {journal.incident_id}: {journal.reason}"
        store.set_alias(journal.service, alias, target, reason, journal.by)


def _mark(run: Run) -> None:
    """Move aliases and health; what is right already is left alone."""
    store, service, by = run.parts.snapshots, run.journal.service, run.journal.by
    target, bad = run.target.snapshot_id, run.journal.bad_snapshot_id
    reason = f"rollback {run.journal.incident_id}: {run.journal.reason}"
    for alias in (SERVING, LAST_HEALTHY):
        _point(run, alias)
    if bad is None or bad == target:
        return
    try:
        is_marked = store.get(service, bad).entry.health is Health.DEGRADED
    except BadInput:
        return  # it was removed in the meantime
    if not is_marked:
        store.set_health(service, bad, Health.DEGRADED, reason, by)
