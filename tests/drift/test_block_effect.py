"""What blocks share is found, what chance does is not taken for it."""

from __future__ import annotations

import math
import random

import pytest

from quality_lib.drift.block_effect import (
    BlockEffect,
    adjusted,
    block_effect,
    intraclass_correlation,
    variances,
)


def layout(
    blocks: int, each: int, between: float = 0.0, spread: float = 0.0, tails: bool = False
) -> tuple[list[float], list[int]]:
    rng = random.Random(blocks * 1000 + each)
    values, numbers = [], []
    for block in range(blocks):
        offset, width = rng.gauss(0, between), math.exp(rng.gauss(0, spread))
        for _ in range(each):
            noise = rng.gauss(0, 1)
            if tails:
                noise /= math.sqrt(rng.gammavariate(1.5, 2 / 3))
            values.append(offset + width * noise)
            numbers.append(block)
    return values, numbers


def test_the_anova_by_hand() -> None:
    found = variances([1.0, 3.0, 5.0, 7.0], ["a", "a", "b", "b"])
    assert found is not None
    assert found.within == pytest.approx(2.0)
    # Mean square among blocks: 2 * (2 - 4)^2 + 2 * (6 - 4)^2 = 16; (16 - 2) / 2 per block.
    assert found.between == pytest.approx(7.0)
    assert intraclass_correlation([1.0, 3.0, 5.0, 7.0], ["a", "a", "b", "b"]) == pytest.approx(
        7 / 9
    )


@pytest.mark.parametrize(
    ("values", "groups"),
    [([], []), ([1.0], ["a"]), ([1.0, 2.0], ["a", "a"]), ([1.0, 2.0], ["a", "b"])],
    ids=["nothing", "one", "one_group", "no_repeat"],
)
def test_too_little_says_nothing(values: list[float], groups: list[str]) -> None:
    assert variances(values, groups) is None
    assert intraclass_correlation(values, groups) is None
    assert block_effect(values, groups) == BlockEffect()
    assert adjusted(values, groups, BlockEffect(), 3.0) == tuple(values)


def test_constant_values_have_no_effect() -> None:
    values, groups = [2.0] * 8, [0, 0, 1, 1, 2, 2, 3, 3]
    assert intraclass_correlation(values, groups) == 0.0
    assert block_effect(values, groups) == BlockEffect()


@pytest.mark.parametrize("tails", [False, True], ids=["gaussian", "heavy_tails"])
def test_equal_blocks_show_nearly_nothing(tails: bool) -> None:
    values, numbers = layout(20, 60, tails=tails)
    found = block_effect(values, numbers)
    assert found.between_sd < 0.3
    assert found.scale < 1.4


@pytest.mark.parametrize(("between", "low", "high"), [(0.3, 0.15, 0.5), (1.0, 0.6, 1.5)])
def test_the_place_of_blocks_is_found(between: float, low: float, high: float) -> None:
    found = block_effect(*layout(24, 60, between=between))
    assert low < found.between_sd < high


def test_the_spread_of_blocks_is_found() -> None:
    assert block_effect(*layout(24, 60, spread=0.5)).scale > 1.8


def test_without_effects_the_values_stay_as_they_are() -> None:
    values, numbers = [3.0, 1.0, 2.0, 4.0], [0, 0, 1, 1]
    assert adjusted(values, numbers, BlockEffect(), 3.0) == pytest.approx(values)


def test_further_blocks_stay_inside_what_the_worst_block_shows() -> None:
    """A healthy block 2 deviations up exceeds the adjusted 99 % rarely, the raw one often."""
    values, numbers = layout(24, 60, between=0.7)
    effect = block_effect(values, numbers)
    rng = random.Random(5)
    further = [1.4 + rng.gauss(0, 1) for _ in range(2000)]

    def beyond(ordered: list[float]) -> float:
        limit = ordered[int(0.99 * len(ordered))]
        return sum(x > limit for x in further) / len(further)

    assert beyond(sorted(adjusted(values, numbers, effect, 3.0))) <= 0.02
    assert beyond(sorted(values)) > 0.03


def test_more_room_never_lowers_the_values() -> None:
    values, numbers = layout(12, 20, between=0.5)
    effect = block_effect(values, numbers)
    small, large = (sorted(adjusted(values, numbers, effect, s)) for s in (1.0, 3.0))
    assert all(a <= b for a, b in zip(small, large, strict=True))


def test_restless_blocks_widen_the_values_about_their_mean() -> None:
    values, numbers = [1.0, 3.0, 1.0, 3.0], [0, 0, 1, 1]
    found = adjusted(values, numbers, BlockEffect(between_sd=0.0, scale=2.0), 3.0)
    assert found == pytest.approx([0.0, 4.0, 0.0, 4.0])


def test_a_block_in_which_nothing_moves_widens_nobody() -> None:
    """Three nearly equal values are no sign of how restless a block may be, only of a quiet one."""
    rng = random.Random(5)
    usual = {block: [rng.gauss(0, 1) for _ in range(6)] for block in range(12)}
    still = {**usual, 12: [0.5, 0.5 + 1e-6, 0.5, 0.5]}
    for blocks in (usual, still):
        values = [x for row in blocks.values() for x in row]
        names = [block for block, row in blocks.items() for _ in row]
        assert block_effect(values, names).scale == 1.0
