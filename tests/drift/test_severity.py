"""Worse or only different: fair bets on bounded scores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.severity import BETS, Quality, bets_for, evidence, fallen, next_severity

State = dict[str, tuple[float, ...]]


def after(scores: list[float], healthy: float = 0.95) -> State:
    state: State = {}
    for score in scores:
        state = next_severity(state, Quality({"tasks": score}, {"tasks": healthy}), 0.03)
    return state


@pytest.mark.parametrize(
    ("limit", "most"), [(0.92, 8.0), (0.5, 2.0), (0.1, 1.0), (0.0, None), (-0.5, None)]
)
def test_no_bet_can_lose_more_than_all(limit: float, most: float | None) -> None:
    bets = bets_for(limit)
    assert (max(bets) if bets else None) == most


@settings(max_examples=60)
@given(st.floats(0.05, 1.0), st.sampled_from(BETS), st.floats(0.0, 1.0))
def test_each_bet_is_fair_at_the_limit(limit: float, bet: float, share: float) -> None:
    """Two-point scores with a mean of exactly the limit: the gain's mean is 1 and none is negative."""
    if bet not in bets_for(limit):
        return
    low, high = share * limit, limit + (1 - limit) * share
    chance = 0.5 if high == low else (limit - low) / (high - low)
    gains = [1 + bet * (limit - x) for x in (low, high)]
    assert min(gains) >= -1e-9
    assert (1 - chance) * gains[0] + chance * gains[1] == pytest.approx(1.0)


def test_healthy_scores_bring_nothing_and_low_ones_do() -> None:
    assert evidence(after([0.95] * 200)["tasks"]) < 87_600
    assert fallen(after([0.95] * 200), 87_600) == ()
    # Detection anchors, 4.4: 0.5 takes about 9 hours, 0.75 about 15.
    assert fallen(after([0.5] * 9), 87_600) == ("tasks",)
    assert fallen(after([0.75] * 10), 87_600) == ()
    assert fallen(after([0.75] * 16), 87_600) == ("tasks",)


def test_the_tolerance_is_not_a_fall() -> None:
    assert fallen(after([0.93] * 2000), 87_600) == ()


def test_several_scores_share_the_budget() -> None:
    state = {"a": (100.0,), "b": (300.0,)}
    assert fallen(state, 100) == ("b",)
    assert fallen({"a": (100.0,)}, 100) == ("a",)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_what_is_no_score_changes_nothing(score: float) -> None:
    assert after([score]) == {}


def test_unknown_scores_and_hopeless_limits_change_nothing() -> None:
    assert next_severity({}, Quality({"new": 0.1}, {}), 0.03) == {}
    assert next_severity({}, Quality({"low": 0.0}, {"low": 0.02}), 0.03) == {}


def test_re_checks_multiply_only_where_they_may() -> None:
    before = after([0.5])
    quality = Quality({"tasks": 0.5}, {"tasks": 0.95})
    kept = next_severity(before, quality, 0.03, is_recheck=True)
    more = next_severity(before, quality, 0.03, is_recheck=True, multiplies=True)
    assert kept == before
    assert evidence(more["tasks"]) > evidence(before["tasks"])


def test_another_number_of_bets_starts_anew() -> None:
    state = next_severity({"tasks": (5.0, 5.0)}, Quality({"tasks": 0.9}, {"tasks": 0.95}), 0.03)
    assert len(state["tasks"]) == len(bets_for(0.92))
    assert max(state["tasks"]) < 2
