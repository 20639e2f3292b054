"""The port ``Engine``: what starts, watches and stops instances of a service."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class EngineSpec:
    """What is to be started."""

    model_path: Path
    served_name: str
    args: tuple[str, ...] = ()
    """vLLM's own arguments beside model, served name, host and port."""
    env: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    """``None``: any free one."""
    drain_s: float = 30.0
    """How long requests in flight may still take when the instance is stopped."""
    detached: bool = False
    """Whether the instance outlives the process that starts it; else it is ended with its owner."""
    introspection: bool = True
    """Whether the server tells its facts at ``/quality/server`` (start-up check)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the instance is for, kept in its record: whoever comes later finds it by them."""


@dataclass(frozen=True)
class Instance:
    """A running server."""

    id: str
    endpoint: str
    """Base address without ``/v1``."""
    pid: int
    log_path: Path
    model_path: Path
    served_name: str
    started_at: str
    """ISO 8601, UTC."""
    args: tuple[str, ...] = ()
    """The whole argument list; secrets are masked."""
    drain_s: float = 30.0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stopped:
    """How an instance ended."""

    instance: Instance
    forced: tuple[int, ...]
    """Ids of the processes that had to be killed; empty after a graceful end."""
    seconds: float


class Engine(Protocol):
    """Start, watch and stop instances. Every method may raise ``EngineFailed``."""

    def start(self, spec: EngineSpec) -> Instance:
        """Start an instance and return at once; it is recorded before this returns."""
        ...

    def wait_healthy(self, instance: Instance, timeout_s: float) -> None:
        """Return when the instance serves its model; fail early when it dies."""
        ...

    def warm_up(self, instance: Instance) -> float:
        """Send the first requests, which compile kernels; return the seconds they took."""
        ...

    def is_running(self, instance: Instance) -> bool:
        """Return whether the instance's server process lives."""
        ...

    def stop(self, instance: Instance, drain_s: float | None = None) -> Stopped:
        """Let requests in flight finish, then end every process of the instance.

        Stopping what is stopped does nothing. ``drain_s`` defaults to the instance's own.
        """
        ...

    def instances(self) -> tuple[Instance, ...]:
        """Return what runs, oldest first."""
        ...

    def find_orphans(self) -> tuple[Instance, ...]:
        """Return what runs although its owner is gone, or has lost its server process."""
        ...

    def startup_seconds(self, model_path: Path) -> float | None:
        """Return how long the last measured start of these weights took; None: never measured."""
        ...


@contextmanager
def running(engine: Engine, spec: EngineSpec, timeout_s: float = 300.0) -> Generator[Instance]:
    """Give a healthy, warmed-up instance and stop it at the end, whatever happens in between."""
    instance = engine.start(spec)
    try:
        engine.wait_healthy(instance, timeout_s)
        engine.warm_up(instance)
        yield instance
    finally:
        engine.stop(instance)
