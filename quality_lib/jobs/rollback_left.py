"""Find a rollback that nobody drives any more. It only looks; ``reconcile`` ends it."""

from __future__ import annotations

from datetime import datetime, timedelta

from quality_lib.adapters.files.journal import Incidents
from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.left_behind import LeftBehind, left_behind
from quality_lib.settings import RollbackSettings, Settings


def longest_wait(limits: RollbackSettings) -> timedelta:
    """Return the longest that a step or an approval may take."""
    return timedelta(
        seconds=max(
            limits.approval_timeout_minutes * 60,
            limits.start_timeout_s,
            limits.drain_timeout_s,
            limits.soak_s,
        )
    )


def find_left_behind(
    settings: Settings, service_name: str, record: IncidentRecord | None, now: datetime
) -> LeftBehind | None:
    """Return how the incident that the store calls open was left.

    ``None``: there is none, somebody works on it or may, or its journal lies on another machine.
    """
    if record is None:
        return None
    incidents = Incidents(settings.stores.work_dir, service_name)
    try:
        journal = incidents.folder(record.incident_id).read()
    except BadInput:
        return None
    found = left_behind(journal, now, longest_wait(settings.service(service_name).rollback))
    return None if found is None or incidents.is_locked() else found
