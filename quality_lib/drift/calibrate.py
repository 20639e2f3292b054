"""A calibration out of healthy readings, by leaving one block out at a time. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quality_lib.drift.block_effect import (
    BlockEffect,
    adjusted,
    block_effect,
    intraclass_correlation,
)
from quality_lib.drift.calibration import Calibration, StatisticHealth
from quality_lib.drift.conformal import at_least
from quality_lib.drift.contract import breaches
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.evalue import WEIGHTS, combine, rank_e
from quality_lib.drift.healthy import Healthy, Sums, folds, healthy_of, sums_of
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import OF_TEXTS, Pair, Statistic, Statistics, pair_up, statistics
from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.drift.variants import Variants, settled, variants_of
from quality_lib.errors import BadInput, NoData


def calibrate(
    readings: Sequence[CheckReading],
    reference: CheckReading,
    limits: DriftLimits = DriftLimits(),  # noqa: B008
    platform: str = "",
) -> Calibration:
    """Learn what healthy checks look like (detection anchors, 4.3.1).

    Every check is measured with answers, means and spreads of the *other* blocks, as a future block will be. Not every
    check need be decoded: the statistics of texts are left out, with their probes, until ``min_checks`` are.

    Raises:
        NoData: too few checks, blocks or starts; says how many more.
        BadInput: a healthy check breaks the contract, or two checks have one name.
    """
    blocks = tuple(dict.fromkeys(r.block for r in readings))
    _refuse_damaged(readings, reference)
    exact_up_to = _exact_up_to(readings, reference, limits)
    is_exact = 0 < max((b.load for b in blocks), default=0) <= exact_up_to
    _refuse_too_few(len(readings), blocks, is_exact, limits)
    numbers = [blocks.index(r.block) for r in readings]
    variants = variants_of(readings, reference, numbers)
    pairs = _pairs_without_own_block(readings, reference, numbers, variants)
    learned = _Learned(pairs, numbers, len(blocks))
    without = [learned.healthy(block) for block in range(len(blocks))]
    found = [statistics(p, without[number]) for p, number in zip(pairs, numbers, strict=True)]
    health = {
        name: made
        for name in Statistic
        if (made := _health(name, found, numbers, limits)) is not None
    }
    bursts = [r.burst for r in readings]
    looked_at = _looked_at(learned.healthy(None), health)
    return Calibration(
        reference_id=reference.check_id,
        platform=platform,
        checks=len(readings),
        blocks=blocks,
        exact_up_to=exact_up_to,
        healthy=looked_at,
        variants=settled(variants, looked_at.keys()),
        statistics=health,
        recheck_correlation=_recheck_correlation(health, found, bursts, limits),
        bursts=_burst_values(health, found, bursts, limits.calibration_risk),
        risk=limits.calibration_risk,
        most_running=max((r.running or 0 for r in readings), default=0),
    )


def _pairs_without_own_block(
    readings: Sequence[CheckReading],
    reference: CheckReading,
    numbers: Sequence[int],
    variants: Mapping[Key, Variants],
) -> list[tuple[Pair, ...]]:
    """Pair each check with the answers of the other blocks; block after block, for each needs its own tables."""
    found: dict[int, tuple[Pair, ...]] = {}
    for block in sorted(set(numbers)):
        others = {key: known.without(block) for key, known in variants.items()}
        for place, number in enumerate(numbers):
            if number == block:
                found[place] = pair_up(readings[place], reference, others)
    return [found[place] for place in range(len(readings))]


def _refuse_damaged(readings: Sequence[CheckReading], reference: CheckReading) -> None:
    names = [r.check_id for r in readings]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"healthy check {twice} is there twice", fix="give each check once")
    if not reference.answered():
        raise NoData("the reference holds no answer")
    for reading in readings:
        if found := breaches(reading, reference):
            raise BadInput(
                f"check {reading.check_id} is not healthy: {found[0].sentence}",
                fix="find out what served, then calibrate with healthy checks only",
            )


def _refuse_too_few(
    checks: int, blocks: Sequence[Block], is_exact: bool, limits: DriftLimits
) -> None:
    starts = len({block.start for block in blocks})
    needed = limits.min_starts if is_exact else limits.min_blocks
    if checks < limits.min_checks:
        raise NoData(f"a calibration needs {limits.min_checks} healthy checks, there are {checks}")
    if starts < limits.min_starts:
        raise NoData(
            f"a calibration needs {limits.min_starts} server starts, there are {starts}: what a "
            "restart changes cannot be told from a fault"
        )
    if len(blocks) < needed:
        raise NoData(
            f"a calibration needs {needed} blocks of server start, load and cache state, there are "
            f"{len(blocks)}"
        )


def _exact_up_to(
    readings: Sequence[CheckReading], reference: CheckReading, limits: DriftLimits
) -> int:
    """Return the load up to which no score moved in any healthy check (detection anchors, 4.2: L1).

    Enough checks over several starts must show it.
    """
    exact: list[CheckReading] = []
    found = 0
    for load in sorted({r.block.load for r in readings}):
        own = [r for r in readings if r.block.load == load]
        bits = [compare_bits(r, reference) for r in own]
        if not all(b.compared and not b.moved and b.repeats_itself for b in bits):
            break
        exact += own
        found = load
    starts = {r.block.start for r in exact}
    return found if len(exact) >= limits.min_checks and len(starts) >= limits.min_starts else 0


@dataclass
class _Probe:
    """One probe over the blocks."""

    centre: float
    sums: list[Sums]

    def healthy(self, left_out: int | None) -> Healthy:
        total = sum(self.sums, Sums())
        if left_out is not None:
            total -= self.sums[left_out]
        return healthy_of(total, self.centre)


class _Learned:
    """Sums of every probe by block, so that leaving one out costs nothing."""

    def __init__(
        self, pairs: Sequence[Sequence[Pair]], numbers: Sequence[int], blocks: int
    ) -> None:
        by_key: dict[Key, list[list[Pair]]] = {}
        for check, number in zip(pairs, numbers, strict=True):
            for p in check:
                by_key.setdefault(p.key, [[] for _ in range(blocks)])[number].append(p)
        self._probes = {key: _probe(rows) for key, rows in by_key.items()}

    def healthy(self, left_out: int | None) -> dict[Key, Healthy]:
        found = {key: probe.healthy(left_out) for key, probe in self._probes.items()}
        return {key: known for key, known in found.items() if known.checks}


def _probe(rows: Sequence[Sequence[Pair]]) -> _Probe:
    moved = [
        folds(p.delta)
        for row in rows
        for p in row
        if p.delta is not None and math.isfinite(p.delta)
    ]
    centre = math.fsum(moved) / len(moved) if moved else 0.0
    return _Probe(centre, [sums_of(row, centre) for row in rows])


def _health(
    name: Statistic, found: Sequence[Statistics], numbers: Sequence[int], limits: DriftLimits
) -> StatisticHealth | None:
    rows = [
        (value, number)
        for check, number in zip(found, numbers, strict=True)
        if (value := check[name]) is not None
    ]
    # With few values a statistic brings next to no evidence, and takes weight from those that do.
    if not rows or (name in OF_TEXTS and len(rows) < limits.min_checks):
        return None
    values, blocks = [v for v, _ in rows], [b for _, b in rows]
    effect = block_effect(values, blocks)
    if name in OF_TEXTS:
        # Counts of rare events: most blocks have none, which is no spread that others could exceed.
        effect = replace(effect, scale=1.0)
    return StatisticHealth(tuple(values), tuple(blocks), effect, limits.block_sigmas)


def _looked_at(
    healthy: Mapping[Key, Healthy], health: Mapping[Statistic, StatisticHealth]
) -> dict[Key, Healthy]:
    """Leave out the probes that no statistic of the calibration looks at."""
    idle = {channel for name, own in OF_TEXTS.items() if name not in health for channel in own}
    return {key: known for key, known in healthy.items() if known.is_measured or key[1] not in idle}


def _recheck_correlation(
    health: Mapping[Statistic, StatisticHealth],
    found: Sequence[Statistics],
    bursts: Sequence[str | None],
    limits: DriftLimits,
) -> float | None:
    """Return the largest correlation within bursts beyond what their block explains.

    None where a statistic has too few bursts: what is multiplied must have been measured.
    """
    correlations = []
    for name, known in health.items():
        named = [b for b, check in zip(bursts, found, strict=True) if check[name] is not None]
        centred = adjusted(known.values, known.blocks, BlockEffect(known.effect.between_sd), 0.0)
        rows = [(x, b) for x, b in zip(centred, named, strict=True) if b is not None]
        if len({b for _, b in rows}) < limits.min_blocks:
            return None
        one = intraclass_correlation([x for x, _ in rows], [b for _, b in rows])
        if one is not None:
            correlations.append(one)
    return max(correlations, default=None)


def _burst_values(
    health: Mapping[Statistic, StatisticHealth],
    found: Sequence[Statistics],
    bursts: Sequence[str | None],
    risk: float,
) -> tuple[float, ...]:
    """Return the mean e-value of each healthy burst, a check's own value taken out of its rank.

    Checks that lack a statistic are left out: the bursts to be ranked among these have all.
    """
    share, known = risk / len(WEIGHTS), frozenset(health)
    groups: dict[str, list[float]] = {}
    for check, burst in zip(found, bursts, strict=True):
        if burst is None or any(check[name] is None for name in health):
            continue
        e = {
            name: None
            if (value := check[name]) is None
            else rank_e(max(0, at_least(value, h.ordered) - 1), len(h.ordered), share)
            for name, h in health.items()
        }
        if (together := combine(e, known)) is not None:
            groups.setdefault(burst, []).append(together)
    return tuple(sorted(math.fsum(g) / len(g) for g in groups.values() if len(g) > 1))
