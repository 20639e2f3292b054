"""Everything that a decision is made from, and whether a piece of it counts by its time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from quality_lib.golden.result import TrendPoint
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.scoring.result import ScorePoint


@dataclass(frozen=True)
class Evidence:
    """What is known of a service at one moment."""

    service: str
    now: datetime
    golden: tuple[TrendPoint, ...] = ()
    """Newest first."""
    scores: tuple[ScorePoint, ...] = ()
    """Newest first."""
    signals: tuple[EngineFinding, ...] = ()
    serving_snapshot_id: str | None = None
    """What carries the alias ``serving``; None without one."""
    deployment_key: str | None = None
    """Of what really serves; None when nobody can tell."""
    last_change_at: datetime | None = None
    """When the last incident ended or another deployment took over, whichever is later. Evidence
    from before belongs to something that no longer serves. None: as long as evidence goes back."""


@dataclass(frozen=True)
class Place:
    """Where a piece of evidence lies in time."""

    age_s: float | None
    """None when its time cannot be read."""
    problem: str = ""
    """Why it does not count; empty when it does."""
    code: str = ""
    """``stale``, ``clock`` or ``before_change``; empty when it counts."""


def moment(text: str) -> datetime | None:
    """Return an aware time; without a zone it is UTC. None for what is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def place(
    text: str,
    evidence: Evidence,
    *,
    skew_s: float,
    max_age_minutes: float | None = None,
    begins: str = "",
) -> Place:
    """Judge one piece of evidence by its time.

    ``begins`` is its start where it covers a period: all of it must lie after the last change.
    """
    at = moment(text)
    if at is None:
        return Place(None, "has no time that can be read", "clock")
    age = evidence.now - at
    seconds = age.total_seconds()
    if seconds < -skew_s:
        return Place(seconds, f"lies {span(-age)} in the future: the clocks disagree", "clock")
    if max_age_minutes is not None and age > (limit := timedelta(minutes=max_age_minutes)):
        return Place(seconds, f"is {span(age)} old, allowed are {span(limit)}", "stale")
    change, start = evidence.last_change_at, moment(begins) if begins else None
    if change is not None and at < change:
        return Place(seconds, f"is from before the last change ({clock(change)})", "before_change")
    if change is not None and start is not None and start < change:
        return Place(seconds, f"begins before the last change ({clock(change)})", "before_change")
    return Place(seconds)


def last_change(
    golden: Iterable[TrendPoint],
    deployment_key: str | None,
    last_end: datetime | None,
    observed_at: datetime,
) -> datetime | None:
    """Return since when what serves now serves, as far as the golden runs and incidents tell.

    ``golden`` are runs, newest first. A deployment that no run has seen yet counts from the moment it
    was observed: nothing older can be about it. None when no change is known.
    """
    known = [run for run in golden if run.deployment_key and moment(run.started_at)]
    since = None
    if deployment_key is not None and known:
        own = list(takewhile(lambda run: run.deployment_key == deployment_key, known))
        if not own:
            since = observed_at
        elif len(own) < len(known):
            since = moment(own[-1].started_at)
    times = [time for time in (since, last_end) if time is not None]
    return max(times) if times else None


def span(length: timedelta) -> str:
    """Return a length of time for people: ``40 s``, ``12 min``, ``3.5 h``, ``2 d``."""
    seconds = abs(length.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 120 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86_400:.0f} d"


def clock(at: datetime) -> str:
    """Return a moment for people, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
