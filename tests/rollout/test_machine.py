"""What comes next, what may be asked for, and what an abort goes back to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quality_lib.errors import BadInput
from quality_lib.rollout import machine
from quality_lib.rollout.journal import AbortRequest, Bad, Done, Journal
from quality_lib.rollout.machine import Step, Turn
from quality_lib.rollout.ports import Backend, RouteTable
from quality_lib.rollout.strategy import StepName, Strategy
from tests.rollout.plans import NOW, journal, plan, table

FIRST, SECOND = "chat-abc-0-r1", "chat-abc-0-r2"


def after(*steps: Step, **changes: Any) -> Journal:
    done = tuple(Done(step.name, step.index, NOW, 1.0, "ok") for step in steps)
    return journal(done=done, **changes)


ALL = machine.steps_of(journal())


def test_the_whole_way_forward() -> None:
    names = ["validate", "start", "check", "move 0", "move 1", "move 2", "move 3", "retire"]
    assert [str(step) for step in ALL] == [*names, "recover", "report"]
    for number, step in enumerate(ALL):
        assert machine.next_step(after(*ALL[:number])) == step
    assert machine.next_step(after(*ALL)) is None


@pytest.mark.parametrize(
    ("changes", "coming"),
    [
        ({"bad": Bad(StepName.CHECK, None, NOW, "no")}, Step(StepName.ABORT)),
        ({"abort": AbortRequest(NOW, "ada", "no")}, Step(StepName.ABORT)),
        ({"state": "aborted"}, None),
        ({"state": "failed"}, None),
    ],
)
def test_a_failed_check_or_a_wish_leads_back(changes: dict[str, Any], coming: Step | None) -> None:
    assert machine.next_step(after(*ALL[:3], **changes)) == coming


@pytest.mark.parametrize(
    ("made", "step", "turn"),
    [
        (after(), ALL[0], Turn.GO),
        (after(*ALL[:4]), ALL[3], Turn.DONE),
        (after(*ALL[:4]), ALL[4], Turn.GO),
        (after(bad=Bad(StepName.START, None, NOW, "no")), ALL[0], Turn.BACK),
        (after(bad=Bad(StepName.START, None, NOW, "no")), Step(StepName.ABORT), Turn.GO),
        (after(state="aborted"), ALL[0], Turn.CLOSED),
        (after(state="done"), Step(StepName.ABORT), Turn.CLOSED),
        (after(state="done"), Step(StepName.STOP_STAGING), Turn.GO),
        (after(), Step(StepName.STOP_STAGING), Turn.GO),
    ],
)
def test_whose_turn_it_is(made: Journal, step: Step, turn: Turn) -> None:
    assert machine.turn(made, step) is turn


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (ALL[2], "cannot be done before 'validate'"),
        (Step(StepName.MOVE, 7), "has no step 'move 7'"),
    ],
)
def test_a_step_out_of_order_is_refused(step: Step, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        machine.turn(after(), step)


@pytest.mark.parametrize(
    ("alive", "weights", "keeps"),
    [
        ({"a", "b"}, {"a": 60, "b": 40}, set()),
        ({"a", "b", FIRST, SECOND}, {"a": 60, "b": 40}, set()),
        ({"b", FIRST, SECOND}, {"b": 40, FIRST: 60}, {FIRST}),
        ({"b"}, {"b": 100}, set()),
        ({FIRST, SECOND}, {FIRST: 60, SECOND: 40}, {FIRST, SECOND}),
        ({SECOND}, {SECOND: 100}, {SECOND}),
    ],
)
def test_the_way_back(alive: set[str], weights: dict[str, int], keeps: set[str]) -> None:
    back = machine.way_back(journal(), alive)
    assert back.table is not None
    assert dict(back.table.weights()) == weights
    assert back.keeps == frozenset(keeps)


def test_with_everybody_alive_it_is_exactly_the_starting_table() -> None:
    starting = replace(table(a=60, b=40, kept=0), mirror="kept", mirror_percent=7)
    back = machine.way_back(journal(plan(starting)), {"a", "b"})
    assert back.table is starting


def test_with_nobody_alive_the_route_is_left_alone() -> None:
    back = machine.way_back(journal(), set())
    assert back.table is None and "a person has to act" in back.sentence


@pytest.mark.parametrize(
    ("found", "is_ours"),
    [
        (table(a=60, b=40), True),
        (machine.prepared_table(journal()), True),
        *((machine.table_of(journal(), move.weights), True) for move in plan().moves),
        (table(a=59, b=41), False),
        (RouteTable("chat", (Backend("theirs", "10.9.9.9:1", 100),)), False),
        (RouteTable("chat", (Backend("a", "10.9.9.9:1", 60), Backend("b", "10.0.0.2:8000", 40))), False),
    ],
)  # fmt: skip
def test_a_table_that_somebody_else_made_is_told_apart(found: RouteTable, is_ours: bool) -> None:
    assert machine.is_ours(journal(), found) is is_ours


def test_a_mirror_stays_as_long_as_it_is_in_the_table() -> None:
    starting = replace(table(a=100), mirror="a")
    made = journal(plan(starting, strategy=Strategy.SURGE))
    assert machine.table_of(made, {"a": 50, FIRST: 50}).mirror == "a"
    assert machine.table_of(made, {FIRST: 100}).mirror is None
