"""What was kept of an instance before it ended: one archive and the list of what is in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PackEntry:
    """One part of the evidence, collected or not."""

    name: str
    """Path inside the archive."""
    what: str
    """In words, for whoever opens the archive in a year."""
    size: int
    """Bytes; 0 when nothing was collected."""
    sha256: str
    """Empty when nothing was collected."""
    collected_at: str
    """UTC, ISO 8601."""
    seconds: float
    problem: str = ""
    """Why it is missing or not whole; a part that failed never stops the others."""
    is_in_archive: bool = True
    """False for what is kept on the machine only: a memory dump cannot be masked."""

    @property
    def is_there(self) -> bool:
        """Return whether anything was collected."""
        return bool(self.sha256)


@dataclass(frozen=True)
class EvidencePack:
    """The archive of one instance."""

    instance_id: str
    service: str
    incident_id: str
    collected_at: str
    archive: Path
    size: int
    sha256: str
    entries: tuple[PackEntry, ...]
    uri: str = ""
    """Where it was uploaded to; empty: only on the machine."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is missing and why, a sentence each."""
        return tuple(f"{entry.name}: {entry.problem}" for entry in self.entries if entry.problem)
