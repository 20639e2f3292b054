"""Loads and cache states that the sentinel set is asked under, and platforms by name. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quality_lib.drift.calibration import Calibration
from quality_lib.golden.reading import COLD, WARM

BURST = 4
"""Healthy checks in a row that count as re-checks of each other."""


@dataclass(frozen=True)
class Mode:
    """How a round is asked."""

    load: int
    """Probes under way at once."""
    cache: str

    def salt(self, name: str) -> str:
        """Return the cache salt of a round: one of its own meets a cold cache."""
        return name if self.cache == COLD else ""


def modes_of(loads: Sequence[int]) -> tuple[Mode, ...]:
    """Return every load with either cache state."""
    return tuple(Mode(load, cache) for load in sorted(set(loads)) for cache in (WARM, COLD))


def mode_of_check(modes: Sequence[Mode], number: int, seed: str) -> Mode:
    """Return the mode of one of many checks: all in turn, each time in another order."""
    order = list(modes)
    cycle = number // len(order)
    random.Random(f"{seed}/{cycle}").shuffle(order)  # noqa: S311 - an order, no secret
    return order[number % len(order)]


def recheck_modes(calibration: Calibration, load: int, cache: str) -> Iterator[Mode]:
    """Yield modes for re-checks without end: calibrated ones, first those that differ most.

    After a check of which every bit counts only such modes: elsewhere a moved bit proves nothing.
    """
    known = {Mode(b.load, b.cache) for b in calibration.blocks}
    if calibration.is_exact_for(load):
        known = {mode for mode in known if calibration.is_exact_for(mode.load)}
    now = Mode(load, cache)

    def distance(mode: Mode) -> tuple[bool, int, str]:
        return mode.cache == now.cache, -abs(mode.load - now.load), mode.cache

    order = sorted(known - {now}, key=distance) or sorted(known, key=distance) or [now]
    while True:
        yield from order


def platform_name(version: str | None, environment: Mapping[str, Any]) -> str:
    """Name engine and host as far as they set the bits of a score; empty: nothing is known."""
    parts = [f"vllm {version}"] if version else []
    for name in ("gpu", "driver", "cuda", "torch", "cpu"):
        if environment.get(name):
            parts.append(f"{name} {environment[name]}")
    return ", ".join(parts)
