"""What was read of an engine, now and in the last readings: numbers, no judgement. Pure."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from types import UnionType
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.records import Tri

FORMAT = 1
MAX_SAMPLES = 60

CORRUPTED = "corrupted_requests"
NAN_STEPS = "nan_steps"
PREEMPTIONS = "preemptions"
FINISHED = "finished_requests"
COUNTERS = (CORRUPTED, NAN_STEPS, PREEMPTIONS, FINISHED)


@dataclass(frozen=True)
class LogLook:
    """The new part of the engine's log."""

    file: str
    """Tells one file from another of the same name; empty when it could not be read."""
    offset: int
    """How far it was read."""
    errors: tuple[str, ...] = ()
    """Lines of the engine's own errors, newest last, at most 20."""
    problem: str = ""


@dataclass(frozen=True)
class GpuHealth:
    """One GPU's memory, as its driver or DCGM counts."""

    name: str
    uncorrected: int | None = None
    """Uncorrected ECC errors since the driver was loaded."""
    remap_failed: bool | None = None
    """Whether a broken row could not be replaced."""
    xid: int | None = None
    """The last Xid error; 0 for none."""


@dataclass(frozen=True)
class WeightsLook:
    """One reading of the live weights."""

    at: str
    fingerprint: str = ""
    changed: int = 0
    """Tensors that differ from those after loading."""
    names: tuple[str, ...] = ()
    size: int = 0
    """Bytes that were read."""
    unseen: tuple[str, ...] = ()
    """What could not be read."""
    problem: str = ""


@dataclass(frozen=True)
class EngineSample:
    """One look at one instance. What could not be seen is None, absent, or a ``problem``."""

    at: str
    """UTC, ISO 8601."""
    instance: str
    """Its endpoint."""
    process: str = ""
    """Tells one start of the server from the next; empty: not known."""
    counters: Mapping[str, float] = field(default_factory=dict)
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """Share of the KV cache in use, the highest of all engines."""
    metrics_problem: str = ""
    health: Tri = Tri.UNKNOWN
    """YES: healthy; NO: the server itself says that its engine is dead."""
    health_problem: str = ""
    log: LogLook | None = None
    """None: it is not known where the log lies."""
    gpus: tuple[GpuHealth, ...] | None = None
    """None: there is no GPU, or nothing that tells about it."""
    gpu_problem: str = ""
    weights: WeightsLook | None = None
    """None: they are not asked for."""

    @property
    def is_idle(self) -> bool | None:
        """Whether nothing runs or waits; None when it could not be read."""
        if self.running is None or self.waiting is None:
            return None
        return not self.running and not self.waiting


@dataclass(frozen=True)
class EngineReading:
    """The last samples of one instance, oldest first; what the next reading is compared with."""

    samples: tuple[EngineSample, ...] = ()

    @property
    def last(self) -> EngineSample | None:
        """The newest sample."""
        return self.samples[-1] if self.samples else None

    def with_sample(self, sample: EngineSample, window_minutes: float) -> EngineReading:
        """Add a sample and forget those outside the window, of another instance, and the surplus.

        The sample before is kept however old it is: a counter must have something to rise from.
        """
        at = moment(sample.at)
        earlier = tuple(
            one for one in self.samples if one.instance == sample.instance and moment(one.at) < at
        )
        oldest = at - timedelta(minutes=window_minutes)
        inside = tuple(one for one in earlier if moment(one.at) >= oldest)
        kept = (inside or earlier[-1:])[-(MAX_SAMPLES - 1) :]
        return EngineReading((*kept, sample))


def same_process(reading: EngineReading) -> tuple[EngineSample, ...]:
    """Return the newest samples that one server process gave: a restart counts from nothing.

    Where the server does not tell when it started, a counter that fell tells of a restart.
    """
    kept: list[EngineSample] = []
    for sample in reversed(reading.samples):
        if kept and _is_restart(sample, kept[-1]):
            break
        kept.append(sample)
    return tuple(reversed(kept))


def increase(samples: tuple[EngineSample, ...], counter: str) -> float | None:
    """Return how much a counter rose over samples of one process; None without two readings of it."""
    seen = [sample.counters[counter] for sample in samples if counter in sample.counters]
    return seen[-1] - seen[0] if len(seen) > 1 else None


def moment(text: str) -> datetime:
    """Return the time that a sample carries."""
    return datetime.fromisoformat(text)


def reading_to_json(reading: EngineReading) -> dict[str, Any]:
    """Return plain values that ``reading_from_json`` reads again."""
    return {"format": FORMAT, **asdict(reading)}


def reading_from_json(data: Any) -> EngineReading:
    """Read what ``reading_to_json`` gave, or JSON made from it.

    Raises:
        BadInput: it is something else, or of another format.
    """
    try:
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        found: EngineReading = _read(EngineReading, data)
        for sample in found.samples:
            moment(sample.at)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"the kept reading of an engine cannot be read: {error!r}") from error
    return found


def _is_restart(before: EngineSample, after: EngineSample) -> bool:
    if before.process and after.process:
        return before.process != after.process
    return any(
        after.counters[name] < before.counters[name]
        for name in before.counters.keys() & after.counters.keys()
    )


def _read(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in {UnionType, typing.Union}:
        if value is None:
            return None
        (kind,) = (one for one in typing.get_args(kind) if one is not type(None))
        return _read(kind, value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        known = {one.name for one in fields(kind)}
        given = {name: _read(hints[name], value[name]) for name in known if name in value}
        return kind(**given)  # type: ignore[operator]
    if origin is tuple:
        item = typing.get_args(kind)[0]
        return tuple(_read(item, one) for one in value)
    if origin is not None:
        return {str(key): float(one) for key, one in value.items()}
    return _scalar(kind, value)


def _scalar(kind: Any, value: Any) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is Tri:
        return Tri(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.40} is no {kind.__name__}")
