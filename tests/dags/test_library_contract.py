"""What the operators ask of the library's commands exists there, and what they read is what these print."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import typer.main

from quality_lib.cli import app
from quality_lib.jobs.rollback import StepResult
from quality_lib.rollout.decision import Action, Decision
from quality_lib.rollout.plan import Plan
from tests.dags.conftest import STEPS, decided, plan_of, stepped

COMMANDS = [
    ["decide", "--service", "chat"],
    ["prune", "--service", "chat", "--dry-run"],
    ["rollback", "plan", "--service", "chat", "--target", "t", "--incident", "i", "--by", "b"],
    ["rollback", "plan", "--service", "chat", "--strategy", "surge", "--step-percent", "50"],
    ["rollback", "plan", "--service", "chat", "--soak", "5.0", "--mode", "auto", "--dry-run"],
    ["rollback", "plan", "--service", "chat", "--reason", "r"],
    *(
        ["rollback", "step", step, "--incident-dir", "/d"]
        + (["--index", "0"] if step == "move" else [])
        for step in STEPS
    ),
    ["rollback", "abort", "--service", "chat", "--reason", "r", "--by", "b"],
    ["rollback", "reconcile", "--service", "chat", "--older-than-minutes", "0"],
]


def names(of: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(of)}


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_the_command_line_takes_what_the_operators_ask(arguments: list[str]) -> None:
    command = typer.main.get_command(app)
    given = [*arguments, "--config", "/quality.yaml", "--json"]
    while hasattr(command, "commands"):
        command = command.commands[given.pop(0)]
    command.make_context(arguments[0], given)  # parses, and runs nothing


def test_the_stand_in_answers_a_step_as_the_library_does() -> None:
    assert set(stepped("validate")["json"]) == names(StepResult)


def test_the_stand_in_plans_with_the_fields_of_a_plan() -> None:
    assert set(plan_of("chat")["json"]["plan"]) <= names(Plan)


def test_the_stand_in_decides_with_the_fields_of_a_decision() -> None:
    told = set(decided("none")["json"]) - {"dry_run"}
    assert told <= names(Decision)
    assert {action.value for action in Action} == {"none", "wait", "alert", "rollback"}
