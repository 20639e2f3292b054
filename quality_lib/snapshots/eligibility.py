"""Whether a deployment has been healthy long enough to become a snapshot by itself (D3). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from quality_lib.records import Summary, Tri

MAX_GAP_HOURS = 2.0
"""Golden runs are hourly; a hole of two hours is time that nobody looked at."""


@dataclass(frozen=True)
class HealthRecord:
    """The verdict of one golden run."""

    at: datetime
    summary: Summary
    changed: Tri
    deployment_key: str
    """``manifest.deployment_key`` of what was serving at that time."""


@dataclass(frozen=True)
class Eligibility:
    """Yes or no, with the sentence that says why."""

    eligible: bool
    reason: str
    healthy_hours: float = 0.0
    """Length of the unbroken healthy stretch that ends now."""


def is_eligible(
    history: Iterable[HealthRecord],
    *,
    now: datetime,
    stable_hours: float,
    already_registered: Collection[str] = (),
    max_gap_hours: float = MAX_GAP_HOURS,
) -> Eligibility:
    """Judge the deployment of the newest record; records may come in any order.

    ``already_registered`` holds the deployment keys of the service's snapshots. No history, a hole
    in it, an unknown or inconclusive verdict: none of them counts as healthy time.
    """
    records = sorted(history, key=lambda record: record.at, reverse=True)
    if not records:
        return Eligibility(False, "there is no golden run of this service yet")
    newest = records[0]
    if newest.at > now:
        return Eligibility(
            False, f"the newest golden run lies in the future ({_at(newest)}): the clocks disagree"
        )
    if newest.deployment_key in already_registered:
        return Eligibility(False, "this deployment is registered already")
    start, broken_by = _healthy_stretch(records, now, timedelta(hours=max_gap_hours))
    hours = (now - start).total_seconds() / 3600 if start else 0.0
    if start is None:
        return Eligibility(False, broken_by)
    if hours < stable_hours:
        return Eligibility(
            False, f"healthy for {hours:.1f} of {stable_hours:g} hours: {broken_by}", hours
        )
    return Eligibility(
        True, f"healthy and unchanged for {hours:.1f} hours, asked are {stable_hours:g}", hours
    )


def _healthy_stretch(
    newest_first: list[HealthRecord], now: datetime, max_gap: timedelta
) -> tuple[datetime | None, str]:
    """Return the start of the unbroken stretch that ends now, and what stands before it."""
    start: datetime | None = None
    later = now
    key = newest_first[0].deployment_key
    for record in newest_first:
        problem = _problem(record, key, later - record.at, max_gap)
        if problem:
            return start, problem
        start = later = record.at
    return start, "older golden runs do not exist"


def _problem(record: HealthRecord, key: str, gap: timedelta, max_gap: timedelta) -> str | None:
    if gap > max_gap:
        return (
            f"no golden run for {gap.total_seconds() / 3600:.1f} hours after {_at(record)}, "
            f"allowed are {max_gap.total_seconds() / 3600:g}"
        )
    if record.deployment_key != key:
        return f"another deployment was serving at {_at(record)}"
    if record.summary is not Summary.HEALTHY:
        return f"the golden run of {_at(record)} was {record.summary.value}"
    if record.changed is Tri.YES:
        return f"the golden run of {_at(record)} found a changed model"
    if record.changed is Tri.UNKNOWN:
        return f"the golden run of {_at(record)} could not tell whether the model changed"
    return None


def _at(record: HealthRecord) -> str:
    return record.at.isoformat(timespec="minutes")
