"""Evidence over hours: steps by hand, the promised run length, re-checks, and the JSON round trip."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.evalue import rank_e
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.sequential import (
    BLOCK_WEIGHT,
    Rechecks,
    SequentialState,
    after_alarm,
    alarm_level,
    cleared,
    next_check,
    next_recheck,
    recheck_mode,
)
from quality_lib.errors import BadInput

LIMITS = DriftLimits()
NONE = SequentialState()


@pytest.mark.parametrize(
    ("limits", "level"),
    [
        (DriftLimits(gross_factor=0), 87_600),
        (DriftLimits(), 175_200),
        (DriftLimits(gross_factor=0, endpoints=10), 876_000),
        (DriftLimits(gross_factor=0, checks_per_year=365), 3_650),
        (DriftLimits(gross_factor=0, false_alarms_per_year=1), 8_760),
    ],
)
def test_the_level_follows_from_the_budget(limits: DriftLimits, level: float) -> None:
    assert alarm_level(limits) == pytest.approx(level)


def test_the_sum_of_bets_by_hand() -> None:
    levels, state = [], NONE
    for e in (2.0, 0.5, 3.0, 0.0, 4.0):
        state = next_check(state, e, Rechecks.WAIT)
        levels.append(state.level)
    assert levels == pytest.approx([2.0, 1.5, 7.5, 0.0, 4.0])
    assert state.checks == 5


@pytest.mark.parametrize(
    ("mode", "level"),
    [
        (Rechecks.MULTIPLY, (1 + 10.0) * 20.0 * 2.0 * 3.0),
        (Rechecks.WAIT, (1 + 10.0) * 20.0),
        (Rechecks.BLOCK, (1 + 10.0) * (1 - BLOCK_WEIGHT) * 20.0),
    ],
)
def test_what_re_checks_add(mode: Rechecks, level: float) -> None:
    start = replace(NONE, hour=10.0, checks=1)
    state = next_check(start, 20.0, mode)
    for e in (2.0, 3.0):
        state = next_recheck(state, e, mode, LIMITS)
    assert state.level == pytest.approx(level)
    assert state.rechecks == 2


def test_a_whole_burst_is_ranked_among_healthy_ones() -> None:
    healthy = tuple(float(n) for n in range(1, 201))
    state = next_check(NONE, 300.0, Rechecks.BLOCK)
    for _ in range(8):
        state = next_recheck(state, 300.0, Rechecks.BLOCK, LIMITS, healthy)
    together = rank_e(0, 200, LIMITS.calibration_risk)
    assert state.hour == pytest.approx((1 - BLOCK_WEIGHT) * 300 + BLOCK_WEIGHT * together)


def test_re_checks_end_and_need_a_check_before_them() -> None:
    assert next_recheck(NONE, 9.0, Rechecks.MULTIPLY, LIMITS) == NONE
    full = replace(next_check(NONE, 2.0, Rechecks.MULTIPLY), rechecks=LIMITS.most_rechecks)
    assert next_recheck(full, 9.0, Rechecks.MULTIPLY, LIMITS) == full


@pytest.mark.parametrize("wrong", [-0.1, math.inf, math.nan])
def test_what_is_no_e_value_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="no e-value"):
        next_check(NONE, wrong, Rechecks.WAIT)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 50), max_size=20), st.integers(0, 19), st.floats(0, 50))
def test_more_evidence_never_lowers_the_level(found: list[float], place: int, more: float) -> None:
    def level(values: list[float]) -> float:
        state = NONE
        for e in values:
            state = next_check(state, e, Rechecks.WAIT)
        return state.level

    raised = [e + more if n == place else e for n, e in enumerate(found)]
    assert level(raised) >= level(found) * (1 - 1e-9)


def test_the_mean_run_length_is_at_least_the_level() -> None:
    """Fair bets of a factor 3 or a half: 300 runs to the level 50; its mean must not lie below 50."""
    rng, total, runs = random.Random(4), 0, 300
    for _ in range(runs):
        state = NONE
        while state.level < 50:
            total += 1
            state = next_check(state, 3.0 if rng.random() < 0.2 else 0.5, Rechecks.WAIT)
    # The standard error is about 4; far above 150 would mean that evidence is thrown away.
    assert 42 < total / runs < 150


def test_the_mean_grows_by_at_most_one_a_check() -> None:
    """Exactly, over the tree of all outcomes: E[R_t] = t for bets whose mean is 1."""
    leaves = [(NONE, 1.0)]
    for hour in range(1, 7):
        leaves = [
            (next_check(state, e, Rechecks.WAIT), chance * share)
            for state, chance in leaves
            for e, share in ((3.0, 0.2), (0.5, 0.8))
        ]
        assert math.fsum(s.level * p for s, p in leaves) == pytest.approx(hour)


@pytest.mark.parametrize("mode", [Rechecks.MULTIPLY, Rechecks.WAIT])
def test_stopping_a_burst_at_will_stays_fair(mode: Rechecks) -> None:
    """Over all outcomes of a burst that goes on while it wins: the hour's mean stays at 1."""
    outcomes = ((3.0, 0.2), (0.5, 0.8))
    total = 0.0
    leaves = [(next_check(NONE, e, mode), p) for e, p in outcomes]
    while leaves:
        state, chance = leaves.pop()
        if state.rechecks == 4 or state.hour <= 1:
            total += state.hour * chance
            continue
        leaves += [(next_recheck(state, e, mode, LIMITS), chance * p) for e, p in outcomes]
    assert total == pytest.approx(1.0)


def test_an_alarm_starts_anew_but_forgets_no_suspicion() -> None:
    state = next_check(replace(NONE, hour=1e6, quiet=3), 5.0, Rechecks.WAIT, 2.0)
    after = after_alarm(state, "monday")
    assert (after.level, after.checks, after.watch, after.quiet) == (0.0, 0, 0.0, 0)
    assert (after.open_since, after.suspicious_since) == ("monday", "monday")
    again = after_alarm(after, "tuesday")
    assert (again.open_since, again.suspicious_since) == ("monday", "monday")
    assert cleared() == NONE


@pytest.mark.parametrize(
    ("correlation", "bursts", "mode"),
    [
        (None, 0, Rechecks.WAIT),
        (0.0, 0, Rechecks.MULTIPLY),
        (0.1, 500, Rechecks.MULTIPLY),
        (0.11, 199, Rechecks.WAIT),
        (0.11, 200, Rechecks.BLOCK),
        (None, 200, Rechecks.BLOCK),
    ],
)
def test_correlated_re_checks_are_never_multiplied(
    correlation: float | None, bursts: int, mode: Rechecks
) -> None:
    known = Calibration("ref", "", 1, (), 0, {}, {}, {}, correlation, (1.0,) * bursts, 0.01)
    assert recheck_mode(known, DriftLimits(min_bursts=200)) is mode
    if mode is Rechecks.BLOCK:
        assert recheck_mode(known, LIMITS) is Rechecks.WAIT


def test_json_round_trip() -> None:
    state = replace(
        next_check(NONE, 2.5, Rechecks.WAIT, 1.0),
        pending=("refused",),
        moved={"case0/raw_scored": "abc"},
        severity={"tasks": (1.0, 0.25)},
        suspicious_since="2026-01-01T00:00:00+00:00",
        last_check_id="c1",
    )
    assert SequentialState.from_json(state.to_json()) == state
    assert SequentialState.from_json(NONE.to_json()) == NONE


def changed(**values: object) -> str:
    return json.dumps({**json.loads(NONE.to_json()), **values})


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", changed(schema=2), changed(hour="much"), changed(hour=-1.0),
        changed(before=float("inf")), changed(checks=-1), changed(checks=1.5), changed(moved=[1]),
        changed(severity={"a": "b"}),
    ],
)  # fmt: skip
def test_damaged_states_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="drift decision"):
        SequentialState.from_json(text)
