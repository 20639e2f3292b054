"""The journal of a rollback: everything a later process needs to go on or to go back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from quality_lib.rollout.plan import Plan
from quality_lib.rollout.ports import RouteTable
from quality_lib.rollout.strategy import StepName

SCHEMA = 1

State = Literal["open", "rolling", "done", "aborted", "failed"]
"""``open``: planned, nothing touched; ``rolling``: a step has begun; the others are closed.
``failed``: no target was good enough, and nothing was touched."""


@dataclass(frozen=True)
class Target:
    """The snapshot that was chosen, with what is needed to start it without asking the store."""

    snapshot_id: str
    number: int
    model_path: str
    args: tuple[str, ...]
    """vLLM's own arguments beside those that the engine sets."""
    deployment_key: str


@dataclass(frozen=True)
class Rejected:
    """A candidate that did not pass."""

    snapshot_id: str
    reason: str


@dataclass(frozen=True)
class Replica:
    """A new instance that takes traffic."""

    name: str
    """As the route knows it."""
    instance_id: str
    address: str


@dataclass(frozen=True)
class Relaunch:
    """How an instance that was stopped is started again."""

    model_path: str
    served_name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Retired:
    """An old instance that is out of traffic."""

    name: str
    address: str
    instance_id: str | None
    """``None``: not one of this machine's; somebody else has to stop it."""
    relaunch: Relaunch | None = None
    evidence: Mapping[str, Any] | None = None
    """``None``: not collected yet."""
    stop_after: datetime | None = None
    """Kept until then; ``None``: not kept."""
    stopped_at: datetime | None = None


@dataclass(frozen=True)
class Done:
    """A step that is finished."""

    step: StepName
    index: int | None
    at: datetime
    seconds: float
    headline: str


@dataclass(frozen=True)
class Bad:
    """A step whose check found bad quality: from here the way leads back."""

    step: StepName
    index: int | None
    at: datetime
    reason: str
    is_no_target: bool = False


@dataclass(frozen=True)
class AbortRequest:
    """Somebody wants the starting weights back."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class Event:
    """One line of the timeline."""

    at: datetime
    step: str
    what: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Journal:
    """All of one rollback. Every change makes a new one with the next revision."""

    incident_id: str
    service: str
    plan: Plan
    mode: str
    reason: str
    by: str
    opened_at: datetime
    bad_deployment_key: str | None = None
    bad_snapshot_id: str | None = None
    state: State = "open"
    target: Target | None = None
    rejected: tuple[Rejected, ...] = ()
    fresh: tuple[Replica, ...] = ()
    retired: tuple[Retired, ...] = ()
    done: tuple[Done, ...] = ()
    bad: Bad | None = None
    abort: AbortRequest | None = None
    table: RouteTable | None = None
    """The last table that this rollback put into force; ``None``: it has not touched the route."""
    moved_at: datetime | None = None
    """When that table came into force."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the steps measured, by name: golden results, splits, core checks."""
    events: tuple[Event, ...] = ()
    closed_at: datetime | None = None
    url: str = ""
    """Where the post-mortem is."""
    updated_at: datetime | None = None
    revision: int = 0
    schema: int = SCHEMA

    @property
    def touched_at(self) -> datetime:
        """When somebody last worked on it."""
        return self.updated_at or self.opened_at

    @property
    def is_closed(self) -> bool:
        """Whether nothing more happens in it."""
        return self.state in {"done", "aborted", "failed"}

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return name → address of every backend of this rollback, old and new."""
        return {
            **{b.name: b.address for b in self.plan.starting.backends},
            **{replica.name: replica.address for replica in self.fresh},
        }

    @property
    def gone(self) -> frozenset[str]:
        """Names of the old backends that were stopped."""
        return frozenset(r.name for r in self.retired if r.stopped_at is not None)

    def is_done(self, step: StepName, index: int | None = None) -> bool:
        """Return whether a step is finished."""
        return any(d.step is step and d.index == index for d in self.done)

    def replica(self, name: str) -> Replica | None:
        """Return the new instance behind a backend's name."""
        return next((replica for replica in self.fresh if replica.name == name), None)

    def retired_one(self, name: str) -> Retired | None:
        """Return what is known of an old instance that is out of traffic."""
        return next((one for one in self.retired if one.name == name), None)

    def with_replica(self, new: Replica) -> Journal:
        """Return a journal in which a backend's name stands for this instance."""
        kept = tuple(replica for replica in self.fresh if replica.name != new.name)
        return replace(self, fresh=tuple(sorted((*kept, new), key=lambda r: r.name)))

    def with_retired(self, one: Retired) -> Journal:
        """Return a journal that knows this about an old instance."""
        kept = tuple(r for r in self.retired if r.name != one.name)
        return replace(self, retired=(*kept, one))

    def with_fact(self, name: str, value: Any) -> Journal:
        """Return a journal that holds a measurement."""
        return replace(self, facts={**self.facts, name: value})
