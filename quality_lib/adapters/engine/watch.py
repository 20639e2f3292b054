"""Looks at the instances of a service and keeps what it saw, for the next look to compare with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from quality_lib.adapters.engine.signals import SignalSource, read_sample
from quality_lib.adapters.files.run_folder import write_json
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.rollout.engine_finding import EngineFinding
from quality_lib.rollout.engine_judgement import judge_reading
from quality_lib.rollout.engine_limits import EngineLimits
from quality_lib.rollout.engine_reading import (
    EngineReading,
    EngineSample,
    reading_from_json,
    reading_to_json,
)

LOCK_S = 300.0

Look = Callable[[SignalSource, EngineSample | None, datetime], EngineSample]


def look(
    source: SignalSource,
    previous: EngineReading | None,
    limits: EngineLimits,
    now: datetime,
    read: Look = read_sample,
) -> tuple[tuple[EngineFinding, ...], EngineReading]:
    """Look at one instance once; return what its signals say and the reading to keep."""
    before = previous or EngineReading()
    reading = before.with_sample(
        read(source, _last_of(before, source.endpoint), now), limits.window_minutes
    )
    return judge_reading(reading, limits), reading


def watch(
    sources: Sequence[SignalSource],
    kept: Path,
    limits: EngineLimits,
    now: datetime,
    read: Look = read_sample,
) -> tuple[EngineFinding, ...]:
    """Look at every instance once, with the readings kept in the file ``kept``.

    Of two that look at the same time the second waits for the first. A kept file that cannot be read
    is begun again: rates are then unknown until the next look.

    Raises:
        OutsideFailure: the file cannot be written, or is held for minutes.
    """
    findings: list[EngineFinding] = []
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{kept}.lock", timeout=LOCK_S):
            readings = _load(kept)
            seen: dict[str, EngineReading] = {}
            for source in sources:
                found, seen[source.endpoint] = look(
                    source, readings.get(source.endpoint), limits, now, read
                )
                findings.extend(found)
            # What is no instance of the service any more is forgotten.
            write_json(kept, {name: reading_to_json(one) for name, one in seen.items()})
    except Timeout as error:
        raise OutsideFailure(f"{kept} has been held for {LOCK_S:.0f} s") from error
    except OSError as error:
        raise OutsideFailure(f"{kept} cannot be written: {error}") from error
    return tuple(findings)


def _last_of(reading: EngineReading, endpoint: str) -> EngineSample | None:
    last = reading.last
    return last if last is not None and last.instance == endpoint else None


def _load(kept: Path) -> dict[str, EngineReading]:
    try:
        data: Any = json.loads(kept.read_text(encoding="utf-8"))
        return {str(name): reading_from_json(one) for name, one in data.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, BadInput):
        return {}
