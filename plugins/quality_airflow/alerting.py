"""When to tell: once per change of a service's standing, again after a while, and when it is over. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

REMIND_AFTER = timedelta(hours=6)
"""An hourly check that repeats itself is muted by its readers; six hours is once per shift."""
GOOD = "good"


@dataclass(frozen=True)
class Standing:
    """What is known, and what was told, of one service; times in ISO 8601 so that it is plain JSON."""

    condition: str
    """``good`` or the name of the event that says what is wrong."""
    detail: str
    """What a second alert would have to say anew: degraded became failed, for one."""
    since: str
    told_at: str | None = None
    trouble_since: str | None = None
    """Set from the first trouble until the recovery was told, over any change of condition."""

    @classmethod
    def read(cls, stored: Any) -> Self | None:
        """Return what was stored; anything unreadable counts as nothing known."""
        if not isinstance(stored, Mapping):
            return None
        try:
            standing = cls(**stored)
            for time in (standing.since, standing.told_at, standing.trouble_since):
                if time is not None:
                    datetime.fromisoformat(time)
        except (TypeError, ValueError):
            return None
        return standing

    def plain(self) -> dict[str, Any]:
        """Return what a state store can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Step:
    """The standing after a result, and what to say about it."""

    standing: Standing
    tell: bool
    recovered: bool = False
    reminder: bool = False


def advance(previous: Standing | None, condition: str, detail: str, at: datetime) -> Step:
    """Return the standing after one more result.

    A recovery is told whatever lay between: bad, then no data, then good is one trouble and one recovery.
    """
    now = at.isoformat()
    is_same = previous is not None and (previous.condition, previous.detail) == (condition, detail)
    since = previous.since if previous is not None and is_same else now
    trouble_since = previous.trouble_since if previous is not None else None
    if condition == GOOD:
        standing = Standing(GOOD, detail, since, None, trouble_since)
        return Step(standing, tell=trouble_since is not None, recovered=trouble_since is not None)
    told_at = previous.told_at if previous is not None and is_same else None
    standing = Standing(condition, detail, since, told_at, trouble_since or now)
    is_due = told_at is None or at - datetime.fromisoformat(told_at) >= REMIND_AFTER
    return Step(standing, tell=is_due, reminder=is_due and told_at is not None)


def delivered(standing: Standing, at: datetime) -> Standing:
    """Return the standing after its alert has arrived; until then the next result tells it again."""
    if standing.condition == GOOD:
        return replace(standing, trouble_since=None)
    return replace(standing, told_at=at.isoformat())
