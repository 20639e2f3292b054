"""What Airflow remembers of a service's rollback: who drives it, how far it is, where it began.

The library's journal is the truth about the work. This mirror is what a person sees beside the DAG run and
what tells that the driver of an incident is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

Phase = Literal["moving", "moved", "aborted", "done"]
"""``moving``: until the last weights are set, an abort goes back. ``moved``: the target serves."""
OPEN: frozenset[str] = frozenset({"moving", "moved"})


@dataclass(frozen=True)
class Progress:
    """A rollback as far as it has come; plain JSON."""

    incident_id: str
    incident_dir: str
    dag_run_id: str
    """The run of the DAG ``rollback`` that drives it."""
    phase: Phase
    at: str
    step: str = "plan"
    """The last step that has ended, with the number of a traffic move."""
    headline: str = ""
    revision: int = 0
    """Of the library's journal."""
    starting_table: Mapping[str, Any] = field(default_factory=dict)
    """The weights that an abort restores."""
    asks_abort: bool = False
    """Whether a step found bad quality or an abort request."""

    @classmethod
    def read(cls, stored: Any) -> Self | None:
        """Return what was stored; anything unreadable counts as nothing known."""
        if not isinstance(stored, Mapping):
            return None
        try:
            return cls(**stored)
        except TypeError:
            return None

    @property
    def is_open(self) -> bool:
        """Whether the incident still has to be ended by somebody."""
        return self.phase in OPEN

    def after(self, step: str, result: Mapping[str, Any], at: str, *, moved: bool) -> Self:
        """Return the progress after a step that has ended."""
        revision = result.get("journal_revision")
        return replace(
            self,
            phase="moved" if moved and self.phase == "moving" else self.phase,
            at=at,
            step=step,
            headline=str(result.get("headline") or ""),
            revision=revision if isinstance(revision, int) else self.revision,
            asks_abort=False,
        )

    def plain(self) -> dict[str, Any]:
        """Return what a state store can hold."""
        return asdict(self)


def closed(progress: Progress, phase: Phase) -> Progress:
    """Return the progress of an incident that has ended."""
    return replace(progress, phase=phase, asks_abort=False)


def key(service: str) -> str:
    """Return the key of a service in the state store of ``llm/rollback``."""
    return f"progress:{service}"


def recall(store: Any, service: str) -> Progress | None:
    """Return what is known of the service's last rollback."""
    return Progress.read(store.get(key(service)))


def remember(store: Any, service: str, progress: Progress) -> None:
    """Keep it."""
    store.set(key(service), progress.plain())


def ask_abort(store: Any, service: str) -> None:
    """Keep that a step found bad quality, or an abort request, and that the way leads back."""
    progress = recall(store, service)
    if progress is not None:
        remember(store, service, replace(progress, asks_abort=True))
