"""A fault is a value: a row of the matrix, a seed, and a change that can be applied and taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from quality_lib.errors import BadInput

Undo = Callable[[], None]
"""Takes a change back; a second call does nothing."""


class Expected(StrEnum):
    """What a perfect detector says."""

    SILENT = "silent"
    """Healthy variation: any alarm is false."""
    CHANGED = "changed"
    """Something is different and the answers are as good as before."""
    DEGRADED = "degraded"


class Where(StrEnum):
    """Which part of a target a change needs."""

    WORKER = "worker"
    """A running server with ``bench.faults.worker.FaultWorker`` inside."""
    REQUESTS = "requests"
    """The way of the requests to the server."""
    FOLDER = "folder"
    """A copy of the model folder; the server is started on it."""
    FLAGS = "flags"
    """The arguments of a server that is yet to start."""


class Worker(Protocol):
    """The extension inside the engine, as the injector sees it."""

    def call(self, method: str, *args: str) -> Any:
        """Call a method in every worker and return the answer of the first."""


@dataclass
class Shim:
    """What a proxy between client and server does to each request."""

    rewrites: list[Callable[[str, dict[str, Any]], dict[str, Any] | None]] = field(
        default_factory=list
    )
    """Each gets the path and the body and returns the body to send; ``None`` drops the request."""

    def rewritten(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Pass a body through every rewrite, the first one first."""
        told: dict[str, Any] | None = dict(body)
        for rewrite in self.rewrites:
            if told is None:
                return None
            told = rewrite(path, told)
        return told


@dataclass
class Target:
    """What a change may be applied to; parts that do not exist are ``None``."""

    worker: Worker | None = None
    shim: Shim | None = None
    folder: Path | None = None
    """A copy: it is written to."""
    flags: list[str] | None = None

    def has(self, where: Where) -> bool:
        """Return whether the part is there."""
        part: Any = {
            Where.WORKER: self.worker,
            Where.REQUESTS: self.shim,
            Where.FOLDER: self.folder,
            Where.FLAGS: self.flags,
        }[where]
        return part is not None


class Change(Protocol):
    """One way to alter a server."""

    @property
    def places(self) -> tuple[Where, ...]:
        """Where it can be applied, the cheapest first."""

    def apply(self, target: Target, seed: int) -> Undo:
        """Apply the change to the first of its places that the target has."""


@dataclass(frozen=True)
class Fault:
    """One instance of a row of the matrix."""

    number: int
    """Row of the matrix, 1 to 20; 0 for a control."""
    name: str
    """Unique; with a draw's number where a fault is drawn often."""
    kind: str
    """The family that results are told by."""
    change: Change
    seed: int = 0
    expected: Expected = Expected.DEGRADED
    is_gross: bool = False
    """Whether the headline counts it among the faults that one check must find."""

    def apply(self, target: Target) -> Undo:
        """Apply the fault and return what takes it back.

        Raises:
            BadInput: the target has none of the parts that the change needs.
        """
        if not any(target.has(where) for where in self.change.places):
            needed = " or ".join(self.change.places)
            raise BadInput(f"fault '{self.name}' needs {needed}")
        return once(self.change.apply(target, self.seed))

    @property
    def needs_restart(self) -> bool:
        """Whether a running server cannot be given it."""
        return not {Where.WORKER, Where.REQUESTS} & set(self.change.places)

    @property
    def touches_weights(self) -> bool:
        """Whether the fingerprint of the weights in memory can prove the undo."""
        return getattr(self.change, "is_of_weights", False)


def once(act: Undo) -> Undo:
    """Return a function that acts on its first call alone."""
    left = [act]

    def undo() -> None:
        while left:
            left.pop()()

    return undo
