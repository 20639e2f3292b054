"""What is recorded, in which order: pure. A unit is what is written in one step and never repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.faults.controls import Control, Manner
from bench.faults.fault import Fault
from bench.faults.weight_steps import seed_of
from bench.matrix.halves import is_calibration
from bench.matrix.recording import HEALTHY, Track

NOISY_MANNERS = (
    (8, "cold"), (2, "warm"), (32, "cold"), (1, "warm"), (16, "cold"), (4, "warm"),
    (32, "warm"), (1, "cold"), (8, "warm"), (16, "warm"), (2, "cold"), (4, "cold"),
)  # fmt: skip
"""Load and cache state of the noisy hours, in turn, so that both halves meet the same ones."""


@dataclass(frozen=True)
class Size:
    """How much is recorded."""

    starts: int = 20
    """Server starts; odd ones calibrate, faults come in the even ones."""
    healthy_checks: int = 30
    """Of each block."""
    blocks: int = 3
    """Noisy server hours of each start."""
    repeats: int = 3
    """Checks of each fault and track."""
    single_repeats: int = 100
    """Noisy checks of each fault of ``SINGLE_ROWS``."""
    scored_cases: int = 16


MEDIUM = Size(starts=8, healthy_checks=6, blocks=6, repeats=1, single_repeats=24)
SHORT = Size(starts=4, healthy_checks=3, blocks=1, repeats=1, single_repeats=1, scored_cases=4)
SINGLE_ROWS = (5, 6)
"""Rounded weights: one instance each, whose power is a target of its own."""


@dataclass(frozen=True)
class Unit:
    """Some checks of one server under one fault, in one manner."""

    start: int
    track: Track
    block: int
    fault: Fault | None
    """``None``: healthy."""
    manner: Manner
    checks: int
    seed: int

    @property
    def fault_name(self) -> str:
        """Name the fault, or health."""
        return self.fault.name if self.fault else HEALTHY

    @property
    def key(self) -> str:
        """Name the unit's file: sorted, healthy ones come first within their start."""
        name = self.fault_name if self.fault else "0-healthy"
        plain = "".join(c if c.isalnum() or c in "-.^" else "_" for c in name)
        return f"start{self.start:03d}-{self.track}-block{self.block}-{plain}"


def units(size: Size, faults: Sequence[Fault], controls: Sequence[Control] = ()) -> list[Unit]:
    """Plan every unit that one unharmed server can be brought to, start by start.

    Each even start gets its share of the faults, in turn, so that a fault meets one start and all starts meet some.
    """
    planned: list[Unit] = []
    judged = [start for start in range(1, size.starts + 1) if not is_calibration(start)]
    for start in range(1, size.starts + 1):
        planned += _healthy(start, size)
        if is_calibration(start):
            continue
        turn = judged.index(start)
        own = [f for n, f in enumerate(faults) if n % len(judged) == turn and not f.needs_restart]
        for fault in own:
            planned += [
                _unit(start, Track.DETERMINISTIC, 0, fault, Manner(), size.repeats),
                *_noisy(start, size, fault),
            ]
        planned += [
            _unit(start, Track.DETERMINISTIC, 0, control.fault, control.manner, size.repeats)
            for n, control in enumerate(controls)
            if n % len(judged) == turn and not control.fault.needs_restart
        ]
    return planned


def share_of(planned: Sequence[Unit], part: int, parts: int) -> list[Unit]:
    """Return what one of several recorders does: whole server starts, calibrating and judged ones alike."""
    return [unit for unit in planned if (unit.start - 1) // 2 % parts == part - 1]


def restarted(faults: Sequence[Fault], controls: Sequence[Control]) -> list[Control]:
    """Return what needs a server of its own."""
    return [
        *(Control(fault) for fault in faults if fault.needs_restart),
        *(control for control in controls if control.fault.needs_restart),
    ]


def restarted_units(size: Size, needs: Sequence[Control]) -> list[Unit]:
    """Plan one unit for each of them, in even starts of their own after the others."""
    first = size.starts + 2 - size.starts % 2
    return [
        _unit(first + 2 * n, Track.DETERMINISTIC, 0, need.fault, need.manner, size.repeats)
        for n, need in enumerate(needs)
    ]


def manner_of(start: int, block: int, blocks: int) -> Manner:
    """Return the manner of a noisy server hour: load and cache in turn within each half, the order by chance."""
    turn = (start - 1) // 2 * blocks + block - 1
    load, cache = NOISY_MANNERS[turn % len(NOISY_MANNERS)]
    draws = random.Random(seed_of(start, "block", str(block)))
    return Manner(load, cache, draws.randrange(1, 1 << 30))


def _healthy(start: int, size: Size) -> list[Unit]:
    return [
        _unit(start, Track.DETERMINISTIC, 0, None, Manner(), size.healthy_checks),
        *(
            _unit(
                start,
                Track.NOISY,
                block,
                None,
                manner_of(start, block, size.blocks),
                size.healthy_checks,
            )
            for block in range(1, size.blocks + 1)
        ),
    ]


def _noisy(start: int, size: Size, fault: Fault) -> list[Unit]:
    """Spread the repeats of a fault over the noisy hours of its start."""
    by_block = [0] * size.blocks
    first = seed_of(fault.seed, fault.name) % size.blocks
    for n in range(size.single_repeats if fault.number in SINGLE_ROWS else size.repeats):
        by_block[(first + n) % size.blocks] += 1
    return [
        _unit(start, Track.NOISY, block, fault, manner_of(start, block, size.blocks), count)
        for block, count in enumerate(by_block, 1)
        if count
    ]


def _unit(
    start: int, track: Track, block: int, fault: Fault | None, manner: Manner, checks: int
) -> Unit:
    name = fault.name if fault else HEALTHY
    seed = seed_of(start, track, str(block), name)
    return Unit(start, track, block, fault, manner, checks, seed)
