"""Which snapshots a service could go back to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from quality_lib.errors import BadInput
from quality_lib.rollout.evidence import moment
from quality_lib.rollout.incident import IncidentHistory
from quality_lib.snapshots.ports import Health, SnapshotEntry, find


def candidates(
    entries: Sequence[SnapshotEntry],
    *,
    bad_deployment_key: str | None,
    bad_snapshot_ids: Collection[str] = (),
    asked_ref: str | None = None,
) -> tuple[SnapshotEntry, ...]:
    """Return the snapshots to try, in order: healthy ones, the newest first, never a bad one.

    With ``asked_ref`` (alias, number, id, beginning of an id) it is that one alone, whatever its
    health: who names a snapshot does not want another. Empty when there is none.

    Raises:
        BadInput: the asked one does not exist, is ambiguous, or is what was found bad.
    """
    if asked_ref is not None:
        service = entries[0].service if entries else ""
        asked = find(tuple(entries), service, asked_ref)
        if _is_bad(asked, bad_deployment_key, bad_snapshot_ids):
            raise BadInput(
                f"snapshot {asked.snapshot_id[:12]} is what was found bad",
                fix="name another one, or redeploy this one by hand after its cause is removed",
            )
        return (asked,)
    healthy = [
        entry
        for entry in entries
        if entry.health is Health.HEALTHY
        and not _is_bad(entry, bad_deployment_key, bad_snapshot_ids)
    ]
    return tuple(sorted(healthy, key=lambda entry: entry.number, reverse=True))


def condemned(entries: Sequence[SnapshotEntry], history: IncidentHistory) -> frozenset[str]:
    """Return ids of snapshots that an incident found bad and nothing has called healthy since."""
    found = set()
    for record in history.records:
        for entry in entries:
            is_named = entry.snapshot_id == record.bad_snapshot_id or (
                record.bad_deployment_key is not None
                and entry.deployment_key == record.bad_deployment_key
            )
            judged = moment(entry.health_at)
            if is_named and (judged is None or judged <= record.opened_at):
                found.add(entry.snapshot_id)
    return frozenset(found)


def _is_bad(entry: SnapshotEntry, key: str | None, ids: Collection[str]) -> bool:
    return entry.snapshot_id in ids or (key is not None and entry.deployment_key == key)
