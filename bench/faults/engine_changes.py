"""Faults inside the engine: KV cache, logits, sampler, positions, and the server's own arguments."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from bench.faults.fault import Target, Undo, Where


@dataclass(frozen=True)
class Cache:
    """Something happens to the KV cache of every request that has begun to generate."""

    how: str
    """``zero_block``, ``swap_blocks``, ``scale_value`` (once a request) or ``round_fp8`` (before each step)."""
    layer: int = 0
    """Counted from the end when negative."""
    block: int = 0
    """Of the request's own blocks."""
    factor: float = 2.0**20

    @property
    def places(self) -> tuple[Where, ...]:
        """In the worker."""
        return (Where.WORKER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Harm the cache from now on."""
        return _in_worker(target, "cache", {**asdict(self), "seed": seed})


@dataclass(frozen=True)
class Logits:
    """The scores of the next token, or the choice among them, are wrong."""

    how: str
    """``nan``, ``constant``, ``uniform`` (scores); ``second`` and ``drop_top`` (choice alone)."""
    share: float = 1.0
    """Of the steps that are hit."""

    @property
    def places(self) -> tuple[Where, ...]:
        """In the worker."""
        return (Where.WORKER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Harm the logits from now on."""
        return _in_worker(target, "logits", {**asdict(self), "seed": seed})


@dataclass(frozen=True)
class Rope:
    """The table of rotary angles of another base, or of rates rounded to bfloat16."""

    theta: float
    is_rounded: bool = False
    is_of_weights: ClassVar = True

    @property
    def places(self) -> tuple[Where, ...]:
        """In the worker."""
        return (Where.WORKER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Overwrite the table."""
        return _in_worker(target, "rope", asdict(self))


@dataclass(frozen=True)
class Jitter:
    """Healthy noise: the last normalisation's output times ``1 + size * noise``, as other kernels would round it."""

    size: float

    @property
    def places(self) -> tuple[Where, ...]:
        """In the worker."""
        return (Where.WORKER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Add noise from now on."""
        return _in_worker(target, "jitter", {**asdict(self), "seed": seed})


@dataclass(frozen=True)
class Flags:
    """Other arguments of the server."""

    args: tuple[str, ...]

    @property
    def places(self) -> tuple[Where, ...]:
        """At the start."""
        return (Where.FLAGS,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Add the arguments: of an option that is given twice, vLLM takes the later."""
        flags = target.flags
        assert flags is not None
        flags.extend(self.args)

        def undo() -> None:
            del flags[len(flags) - len(self.args) :]

        return undo


@dataclass(frozen=True)
class Nothing:
    """No change at all: the controls that differ in load, cache, order or server start alone."""

    @property
    def places(self) -> tuple[Where, ...]:
        """Anywhere."""
        return (Where.REQUESTS, Where.WORKER, Where.FOLDER, Where.FLAGS)

    def apply(self, target: Target, seed: int) -> Undo:
        """Do nothing."""
        return lambda: None


def _in_worker(target: Target, part: str, given: dict[str, object]) -> Undo:
    worker = target.worker
    assert worker is not None
    worker.call(f"fault_{part}", json.dumps(given))
    return lambda: worker.call("fault_mend", part)
