"""What a rollback works with: one of each port, and who may replace them in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from quality_lib.adapters.engine.port import Engine, Instance
from quality_lib.jobs.clock import Clock, Note
from quality_lib.records import Tri
from quality_lib.rollout.journal import Journal, Target
from quality_lib.rollout.ports import IncidentStore, Route
from quality_lib.settings import ServiceSettings
from quality_lib.snapshots.ports import SnapshotStore, StoredSnapshot


@dataclass(frozen=True)
class Examination:
    """Whether an instance answers as its snapshot's baseline does."""

    state: Tri
    """YES: it does; NO: it does not; UNKNOWN: nothing could be judged, which is never a pass."""
    headline: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Examiner(Protocol):
    """Asks an instance. Every call may raise OutsideFailure and is worth a retry then."""

    def full(
        self, target: Target, endpoint: str, out: Path, hear: Callable[[], None]
    ) -> Examination:
        """Ask the whole golden set and hold it against the target's own baseline (R4).

        It takes minutes, so ``hear`` is called again and again and may end it with OutsideFailure; what
        was answered is kept.
        """
        ...

    def core(
        self, target: Target, endpoint: str, headers: Mapping[str, str], out: Path, cases: int
    ) -> Examination:
        """Ask so many core cases, the critical ones first (R5)."""
        ...


@dataclass(frozen=True)
class Parts:
    """Everything outside that a rollback of one service touches."""

    service_name: str
    service: ServiceSettings
    work_dir: Path
    engine: Engine
    route: Route
    snapshots: SnapshotStore
    incidents: IncidentStore
    examiner: Examiner
    rehash: Callable[[StoredSnapshot], tuple[str, ...]]
    """Where the files of a snapshot differ from its manifest, a sentence each."""
    collect: Callable[[Instance, Journal, Path], Mapping[str, Any]]
    """Keep the evidence of an instance in a folder, before it ends; returns what to remember."""
    report: Callable[[Journal, Path], Mapping[str, Any]]
    """Write and publish the post-mortem; returns at least ``url``."""
    deployment_key: Callable[[], str | None]
    """What serves now; ``None`` when it cannot be told."""
    is_alive: Callable[[str], bool]
    """Whether a server at ``host:port`` answers that it is well."""
    clock: Clock
    sleep: Callable[[float], None]
    note: Note = lambda _: None
    instance_env: Mapping[str, str] = field(default_factory=dict)
    """Environment of every instance that is started."""
