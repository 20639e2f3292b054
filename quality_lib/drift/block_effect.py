"""What checks of one block share, and how far another healthy block may lie off. Pure.

Checks of one server start, load and cache state share their noise. A service may stay within one block
for weeks, so a block that lies a little high would be a small shift that never ends, and would page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BlockEffect:
    """How healthy blocks differ from each other in one statistic."""

    between_sd: float = 0.0
    """Standard deviation of the blocks' true means."""
    scale: float = 1.0
    """Two standard deviations of the blocks' log spread above the usual spread; at least 1."""


@dataclass(frozen=True)
class Variances:
    """A one-way layout with random groups."""

    between: float
    """Variance of the groups' true means; below 0 where they differ less than chance makes them."""
    within: float


def variances(values: Sequence[float], groups: Sequence[Hashable]) -> Variances | None:
    """Estimate the variances by ANOVA, unequal groups allowed; None without two groups and a repeat.

    Searle, Casella and McCulloch, Variance Components (1992), 3.6.
    """
    members = _members(values, groups)
    count, total = len(members), len(values)
    if count < 2 or total <= count:
        return None
    grand = math.fsum(values) / total
    means = [math.fsum(m) / len(m) for m in members]
    within = math.fsum(
        (x - mean) ** 2 for m, mean in zip(members, means, strict=True) for x in m
    ) / (total - count)
    among = math.fsum(
        len(m) * (mean - grand) ** 2 for m, mean in zip(members, means, strict=True)
    ) / (count - 1)
    usual = (total - sum(len(m) ** 2 for m in members) / total) / (count - 1)
    return Variances((among - within) / usual, within)


def intraclass_correlation(values: Sequence[float], groups: Sequence[Hashable]) -> float | None:
    """Return the share of the variance that groups share, 0 to 1; None when it cannot be told.

    Fisher 1925; Shrout and Fleiss, Psychological Bulletin 86 (1979), ICC(1, 1). 0 where nothing varies.
    """
    found = variances(values, groups)
    if found is None:
        return None
    between = max(0.0, found.between)
    return between / (between + found.within) if between else 0.0


def block_effect(values: Sequence[float], blocks: Sequence[Hashable]) -> BlockEffect:
    """Estimate how blocks differ in place and in spread; none of either with fewer than two blocks.

    The place is the between-component of the variance. The spread's variation is what the logarithms
    of the blocks' variances vary beyond the ``(kurtosis - 1) / m`` that chance gives them (the variance
    of a variance, by the delta method), so heavy tails alone are not taken for it.
    """
    found = variances(values, blocks)
    if found is None:
        return BlockEffect()
    return BlockEffect(math.sqrt(max(0.0, found.between)), _spread_scale(_members(values, blocks)))


def adjusted(
    values: Sequence[float], blocks: Sequence[Hashable], effect: BlockEffect, sigmas: float
) -> tuple[float, ...]:
    """Return the values as the worst healthy block would show them, in their order.

    Each block's own offset is taken out as far as it is real (the usual shrinkage of a random effect,
    ``between / (between + within / m)``), the rest is widened by ``scale`` and put where a block
    ``sigmas`` standard deviations above the mean lies. Without block effects they are the values
    themselves, and ranks among them are exactly those of conformal prediction.
    """
    found = variances(values, blocks)
    if found is None:
        return tuple(values)
    grand = math.fsum(values) / len(values)
    between = effect.between_sd**2
    offsets: dict[Hashable, float] = {}
    for block in set(blocks):
        own = [x for x, b in zip(values, blocks, strict=True) if b == block]
        noise = found.within / len(own)
        shrink = between / (between + noise) if between else 0.0
        offsets[block] = shrink * (math.fsum(own) / len(own) - grand)
    shift = sigmas * effect.between_sd
    return tuple(
        grand + (x - grand - offsets[b]) * effect.scale + shift
        for x, b in zip(values, blocks, strict=True)
    )


def _members(values: Sequence[float], groups: Sequence[Hashable]) -> list[list[float]]:
    found: dict[Hashable, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        found.setdefault(group, []).append(value)
    return list(found.values())


def _spread_scale(blocks: Sequence[Sequence[float]]) -> float:
    """Return how much wider a restless block is; 1 where chance explains what the blocks differ."""
    centred = [[x - math.fsum(b) / len(b) for x in b] for b in blocks if len(b) >= 4]
    logs = [math.log(v) for b in centred if (v := math.fsum(x * x for x in b) / (len(b) - 1)) > 0]
    flat = [x for b in centred for x in b]
    squares = math.fsum(x * x for x in flat)
    if len(logs) < 2 or not squares:
        return 1.0
    kurtosis = math.fsum(x**4 for x in flat) * len(flat) / squares**2
    # A block in which next to nothing moved says nothing of how restless one may be: none counts as further below
    # the middle than the most restless one is above it.
    lowest = 2 * statistics.median(logs) - max(logs)
    clipped = [max(lowest, x) for x in logs]
    mean, degrees = math.fsum(clipped) / len(clipped), len(clipped) - 1
    seen = math.fsum((x - mean) ** 2 for x in clipped) / degrees
    by_chance = max(2.0, kurtosis - 1) / (len(flat) / len(centred) - 1)
    # The upper 95 % of chance; below it nothing is proven and the values stay as they are.
    if seen <= by_chance * (1 + 1.645 * math.sqrt(2 / degrees)):
        return 1.0
    # The spread is the root of the variance: two of its log's deviations are one of the variance's.
    return math.exp(math.sqrt(seen - by_chance))
