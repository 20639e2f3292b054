"""Whether a rollback was left behind by whoever drove it, and what its end would be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from quality_lib.rollout.evidence import span
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.machine import has_moved, next_step

GRACE = timedelta(minutes=15)
"""Beyond the longest wait of a step: an incident that nobody has touched for longer has no driver."""

End = Literal["forward", "back", "told"]
"""``forward``: its target serves and the last steps are missing. ``back``: the starting weights come
back. ``told``: it has ended, and the incident store does not know."""


@dataclass(frozen=True)
class LeftBehind:
    """An incident in progress that nobody works on any more."""

    incident_id: str
    service: str
    end: End
    quiet: timedelta
    """How long nobody has worked on it."""
    next: str = ""
    """The step that comes next; empty for one that has ended."""

    @property
    def command(self) -> str:
        """Return what ends it."""
        return f"quality rollback reconcile --service {self.service} --older-than-minutes 0"

    @property
    def sentence(self) -> str:
        """Return what it stands in the way of, and how it is ended."""
        word = {
            "forward": f"its target serves, '{self.next}' and what follows is missing; finish it",
            "back": f"it stopped before '{self.next}'; go back to its starting weights",
            "told": "it has ended and the incident store was not told; tell it",
        }[self.end]
        return (
            f"nobody has worked on incident {self.incident_id} for {span(self.quiet)}, and while it is "
            f"open no other rollback starts: {word}: {self.command}"
        )


def patience(journal: Journal, longest_wait: timedelta) -> timedelta:
    """Return how long nobody may have worked on an incident before its driver counts as gone.

    ``longest_wait`` covers what a driver may wait for between two steps, approvals above all. After
    the last move nobody is asked any more, and a step at work holds the lock.
    """
    return GRACE if has_moved(journal) else longest_wait + GRACE


def left_behind(journal: Journal, now: datetime, longest_wait: timedelta) -> LeftBehind | None:
    """Return how an incident that the store calls open was left; ``None``: its driver may be alive.

    One that was planned and not begun is none: deciding again starts it.
    """
    quiet = now - journal.touched_at
    if journal.is_closed:
        return LeftBehind(journal.incident_id, journal.service, "told", quiet)
    following = next_step(journal)
    if journal.state == "open" or following is None or quiet < patience(journal, longest_wait):
        return None
    end: End = "forward" if has_moved(journal) else "back"
    return LeftBehind(journal.incident_id, journal.service, end, quiet, str(following))
