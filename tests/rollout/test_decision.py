"""Decisions: every world of the three conditions, every reason that holds a rollback back."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.records import Tri
from quality_lib.rollout.decision import Action, Decision, decide
from quality_lib.rollout.incident import IncidentHistory
from quality_lib.rollout.left_behind import LeftBehind
from quality_lib.rollout.limits import RollbackLimits, TriggerLimits
from quality_lib.snapshots.ports import Health
from tests.rollout.evidence_builders import (
    KEY,
    ago,
    entry,
    evidence,
    history,
    incident,
    key_of,
    run,
    signal,
    window,
)

Y, N, U = Tri.YES, Tri.NO, Tri.UNKNOWN
TWO = (entry(2), entry(1))


def decided(
    a: Tri = Y,
    b: Tri = Y,
    c: Tri = N,
    *,
    past: IncidentHistory | None = None,
    entries: Any = TWO,
    policy: str = "(A and B) or C",
    more: dict[str, Any] | None = None,
    **settings: Any,
) -> Decision:
    return decide(
        evidence(a, b, c, **(more or {})),
        TriggerLimits(policy=policy),
        past or history(),
        RollbackLimits(**{"mode": "auto", **settings}),
        entries,
    )


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


@pytest.mark.parametrize("states", list(itertools.product(Tri, repeat=3)))
def test_the_action_in_all_27_worlds(states: tuple[Tri, Tri, Tri]) -> None:
    a, b, c = states
    found = decided(*states)
    assert tuple(condition.state for condition in found.conditions) == states
    if c is Y or (a is Y and b is Y):
        expected = Action.ROLLBACK
    elif N in {a, b} and c is N:
        expected = Action.NONE
    else:
        expected = Action.ALERT if Y in states else Action.WAIT
    assert found.action is expected
    assert (found.incident_id is None) == (expected in {Action.NONE, Action.WAIT})
    assert found.headline.startswith("chat: ")


@pytest.mark.parametrize(
    ("options", "reasons"),
    [
        ({"mode": "alert-only"}, ["alert_only"]),
        ({"has_route": False}, ["no_route"]),
        ({"mode": "alert-only", "has_route": False}, ["alert_only"]),
        ({"entries": ()}, ["no_target"]),
        ({"entries": (entry(1, Health.PENDING),)}, ["no_target"]),
        ({"entries": (entry(1),), "more": {"deployment_key": key_of(1)}}, ["no_target"]),
        ({"past": history(incident(0, closed_at=ago(59)))}, ["cool_down"]),
        (
            {"past": history(*(incident(n, opened_at=ago(900 + n)) for n in range(3)))},
            ["daily_limit"],
        ),
        (
            {
                "mode": "alert-only",
                "entries": (),
                "past": history(
                    *(incident(n, opened_at=ago(9), closed_at=ago(8)) for n in range(3))
                ),
            },
            ["alert_only", "no_target", "cool_down", "daily_limit"],
        ),
    ],
)
def test_a_suppressed_rollback_alerts_and_names_every_reason(
    options: dict[str, Any], reasons: list[str]
) -> None:
    found = decided(N, N, Y, **options)
    assert found.policy_state is Y
    assert found.action is Action.ALERT
    assert [code for code in codes(found) if code in _SUPPRESSIONS] == reasons
    assert found.incident_id is not None


@pytest.mark.parametrize("states", [(Y, Y, N), (N, N, N), (U, U, N), (Y, U, N)])
def test_a_rollback_that_was_left_behind_is_told_whatever_the_evidence_says(
    states: tuple[Tri, Tri, Tri],
) -> None:
    left = LeftBehind("chat-abc-0", "chat", "forward", timedelta(minutes=20), "retire")
    going_on = incident(0, state="rolling", closed_at=None)
    found = decide(
        evidence(*states),
        TriggerLimits(),
        history(going_on),
        RollbackLimits(mode="auto"),
        TWO,
        left,
    )
    assert (found.action, codes(found)[0]) == (Action.ALERT, "left_behind")
    assert found.incident_id == "chat-abc-0"
    assert left.command in found.headline
    without = decide(
        evidence(*states), TriggerLimits(), history(going_on), RollbackLimits(mode="auto"), TWO
    )
    assert without.action in {Action.NONE, Action.WAIT}


_SUPPRESSIONS = {"alert_only", "no_route", "no_target", "cool_down", "daily_limit", "incident_open"}


@pytest.mark.parametrize(
    ("past", "options"),
    [
        (history(incident(0, closed_at=ago(61))), {}),
        (history(incident(0, closed_at=ago(60))), {}),
        (history(incident(0, closed_at=ago(1))), {"cool_down_minutes": 0.0}),
        (history(*(incident(n, opened_at=ago(900)) for n in range(2))), {}),
        (history(*(incident(n, opened_at=ago(1441)) for n in range(9))), {}),
        (history(*(incident(n, opened_at=ago(900)) for n in range(3))), {"daily_limit": 4}),
    ],
)
def test_what_no_longer_holds_a_rollback_back(past: Any, options: dict[str, Any]) -> None:
    assert decided(N, N, Y, past=past, **options).action is Action.ROLLBACK


def test_one_rollback_at_a_time() -> None:
    rolling = incident(0, state="rolling", closed_at=None, opened_at=ago(200))
    found = decided(past=history(rolling))
    assert (found.action, found.incident_id) == (Action.NONE, rolling.incident_id)
    assert codes(found)[0] == "incident_open"
    # Nor is a person called again for what is being worked on.
    assert decided(Y, U, N, past=history(rolling)).action is Action.NONE


@pytest.mark.parametrize(
    ("minutes", "action"), [(1, Action.ROLLBACK), (30, Action.ROLLBACK), (31, Action.ALERT)]
)
def test_an_incident_that_nobody_began_is_asked_for_again_and_then_told(
    minutes: float, action: Action
) -> None:
    """Whoever opened it may have died before it started anything; the same id starts it once."""
    waiting = incident(4, state="open", closed_at=None, opened_at=ago(minutes))
    found = decided(past=history(waiting), mode="auto")
    assert (found.action, found.incident_id) == (action, waiting.incident_id)


def test_the_same_evidence_gives_the_same_decision() -> None:
    assert decided() == decided()
    assert decided().incident_id == "chat-d41d8cd9-0"
    assert decided(past=history(incident(0))).incident_id == "chat-d41d8cd9-1"


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"golden": (run(5), run(65, 0.4))}, id="one bad run then good"),
        pytest.param(
            {"golden": tuple(run(m, 0.4, deployment_key="x") for m in (5, 65))}, id="the one before"
        ),
        pytest.param({"scores": (window(2, 3, rows=4),)}, id="high rate of four answers"),
        pytest.param({"scores": (window(45, 200),)}, id="a bad window too late"),
        pytest.param({"scores": (window(2), window(12, 200))}, id="a bad window, then a good one"),
        pytest.param({"last_change_at": ago(1)}, id="all of it from before the last change"),
        pytest.param({"golden": (), "scores": ()}, id="no data"),
        pytest.param({"golden": tuple(run(m, 0.4) for m in (-500, -560))}, id="clock far ahead"),
        pytest.param({"golden": (run(5, 0.4),) * 5}, id="one run five times"),
        pytest.param(
            {"signals": (signal(Y, at=ago(60).isoformat()),), "scores": ()}, id="old signal"
        ),
    ],
)
def test_what_looks_bad_and_is_not_rolls_nothing_back(more: dict[str, Any]) -> None:
    assert decided(Y, Y, N, more=more).action is not Action.ROLLBACK


def test_bad_golden_runs_alone_do_nothing_and_say_so() -> None:
    found = decided(Y, N, N)
    assert (found.action, codes(found)) == (Action.NONE, ["not_enough"])


def test_a_policy_of_the_services_own() -> None:
    assert decided(Y, U, U, policy="A").action is Action.ROLLBACK
    assert decided(N, N, Y, policy="A and B").action is Action.NONE
    assert decided(N, Y, N, policy="not A and B").action is Action.ROLLBACK


def test_stale_golden_runs_are_named_where_the_action_is() -> None:
    found = decided(Y, Y, U, more={"golden": (run(300, 0.4), run(360, 0.4))})
    assert found.action is Action.ALERT
    assert codes(found)[:2] == ["partly_known", "stale"]


signals = st.builds(
    lambda state, name, minutes: signal(state, name, at=ago(minutes).isoformat()),
    st.sampled_from(Tri),
    st.sampled_from(["engine_health", "kv_leak"]),
    st.integers(-30, 30),
)
runs = st.builds(
    lambda minutes, similarity, key: run(minutes, similarity, deployment_key=key),
    st.integers(-200, 400),
    st.sampled_from([0.4, 0.98, None]),
    st.sampled_from([KEY, "before"]),
)
windows = st.builds(window, st.integers(-60, 60), st.sampled_from([0, 30, 80]))
incidents = st.builds(
    lambda number, state, minutes: incident(
        number,
        state=state,
        opened_at=ago(minutes),
        closed_at=None if state in {"open", "rolling"} else ago(minutes / 2),
    ),
    st.integers(0, 4),
    st.sampled_from(["open", "rolling", "done", "aborted", "failed"]),
    st.integers(0, 3000),
)


@given(
    st.lists(runs, max_size=5, unique_by=lambda one: one.run_id),
    st.lists(windows, max_size=3, unique_by=lambda one: one.score_id),
    st.lists(signals, max_size=3, unique_by=lambda one: one.name),
    st.lists(incidents, max_size=4, unique_by=lambda one: one.incident_id),
    st.sampled_from(["auto", "approve-first", "approve-last", "alert-only"]),
    st.randoms(),
)
def test_whatever_comes_in_a_rollback_is_only_started_where_nothing_stands_against_it(
    golden: Any, scores: Any, engine: Any, past: Any, mode: Any, random: Any
) -> None:
    def decide_in_some_order() -> Decision:
        for one in (golden, scores, engine, past):
            random.shuffle(one)
        more = {"golden": tuple(golden), "scores": tuple(scores), "signals": tuple(engine)}
        return decided(more=more, past=history(*past), mode=mode)

    found = decide_in_some_order()
    assert decide_in_some_order() == found
    going_on = history(*past).in_progress
    if found.action is Action.ROLLBACK:
        assert found.policy_state is Y
        if going_on is None:
            assert not _SUPPRESSIONS & set(codes(found))
            assert found.target_snapshot_id is not None
            assert found.incident_id not in {one.incident_id for one in past}
        else:
            assert (going_on.state, found.incident_id) == ("open", going_on.incident_id)
    if found.action is Action.NONE:
        assert found.policy_state is N or going_on is not None
    if found.action is Action.WAIT:
        assert Y not in {condition.state for condition in found.conditions}


def test_the_decision_names_target_and_what_was_bad() -> None:
    found = decided(more={"deployment_key": key_of(2), "golden": ()}, c=Y)
    assert found.target_snapshot_id == entry(1).snapshot_id
    assert (found.bad_deployment_key, found.bad_snapshot_id) == (key_of(2), entry(2).snapshot_id)
    unregistered = decided()
    assert (unregistered.bad_deployment_key, unregistered.bad_snapshot_id) == (KEY, None)
    assert unregistered.target_snapshot_id == entry(2).snapshot_id


def test_a_target_that_an_earlier_incident_found_bad_is_passed_over() -> None:
    earlier = incident(0, bad_deployment_key=key_of(2), opened_at=ago(2000), closed_at=ago(1990))
    assert decided(past=history(earlier)).target_snapshot_id == entry(1).snapshot_id
