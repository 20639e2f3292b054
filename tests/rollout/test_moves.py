"""Weights on the way to the target: whole, in proportion, and never more on one than it had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.rollout.moves import moves_of, spread
from quality_lib.rollout.strategy import Strategy


@pytest.mark.parametrize(
    ("total", "shares", "given_out"),
    [
        (100, {"a": 1}, {"a": 100}),
        (100, {"a": 1, "b": 1, "c": 1}, {"a": 34, "b": 33, "c": 33}),
        (25, {"a": 60, "b": 40}, {"a": 15, "b": 10}),
        (0, {"a": 60, "b": 40}, {"a": 0, "b": 0}),
        (100, {"a": 0, "b": 0}, {"a": 50, "b": 50}),
        (1, {"a": 1, "b": 2}, {"a": 0, "b": 1}),
    ],
)
def test_a_whole_number_is_divided_in_proportion(
    total: int, shares: dict[str, float], given_out: dict[str, int]
) -> None:
    assert spread(total, shares) == given_out


@pytest.mark.parametrize(
    ("strategy", "start", "step", "weights"),
    [
        (Strategy.SURGE, {"a": 100}, 25, [(75, 25), (50, 50), (25, 75), (0, 100)]),
        (Strategy.SURGE, {"a": 100}, 50, [(50, 50), (0, 100)]),
        (Strategy.SURGE, {"a": 100}, 100, [(0, 100)]),
        (Strategy.IN_PLACE, {"a": 100}, 25, [(None, 100)]),
    ],
)
def test_the_moves_of_one_instance(
    strategy: Strategy, start: dict[str, int], step: int, weights: list[tuple[int | None, int]]
) -> None:
    moves = moves_of(strategy, start, ["new"], step)
    assert [(move.weights.get("a"), move.weights["new"]) for move in moves] == weights
    assert [move.index for move in moves] == list(range(len(moves)))
    assert moves[-1].is_last


def test_rolling_replaces_one_after_the_other() -> None:
    first, second = moves_of(Strategy.ROLLING, {"a": 60, "b": 40}, ["x", "y"], 25)
    assert (first.without, first.weights) == ({"a": 0, "b": 100}, {"b": 40, "x": 60})
    assert (second.without, second.weights) == ({"b": 0, "x": 100}, {"x": 60, "y": 40})
    assert (second.replaces, second.adds) == ("b", "y")


def test_an_old_backend_without_weight_stays_as_it_is() -> None:
    (move,) = moves_of(Strategy.SURGE, {"a": 100, "kept": 0}, ["new"], 100)
    assert move.weights == {"a": 0, "kept": 0, "new": 100}


START = st.lists(st.integers(1, 50), min_size=1, max_size=6).map(
    lambda shares: spread(100, {f"old{n}": float(s) for n, s in enumerate(shares)})
)


@given(start=START, step=st.sampled_from([25, 50, 100]), strategy=st.sampled_from(Strategy))
def test_weights_always_sum_to_100_and_nobody_gets_more_than_its_share(
    start: dict[str, int], step: int, strategy: Strategy
) -> None:
    serving = [name for name, weight in start.items() if weight]
    if strategy is Strategy.IN_PLACE and len(serving) != 1:
        return
    if strategy is Strategy.ROLLING and len(serving) < 2:
        return
    fresh = [f"new{n}" for n in range(len(serving))]
    moves = moves_of(strategy, start, fresh, step)
    for move in moves:
        assert sum(move.weights.values()) == 100 and min(move.weights.values()) >= 0
        if move.without is not None:
            assert sum(move.without.values()) == 100
    assert {n: w for n, w in moves[-1].weights.items() if w}.keys() <= set(fresh)
    if strategy is Strategy.SURGE:
        # Rounding aside, a new instance is never more loaded than the one it stands for.
        for move in moves:
            for old, new in zip(serving, fresh, strict=True):
                assert move.weights[new] <= start[old] + 1
