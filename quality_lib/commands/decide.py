"""``quality decide``: whether a service should go back to a healthy snapshot, and why."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib.commands.output import AsJson, emit_json, stderr, stdout
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD, EXIT_INCONCLUSIVE
from quality_lib.jobs import decide as jobs
from quality_lib.records import Tri
from quality_lib.rollout.condition import Condition
from quality_lib.rollout.decision import Action
from quality_lib.rollout.evidence import clock, span
from quality_lib.settings import config_path, load

MOST_SHOWN = 6
"""Inputs of a condition that did not count and are listed all the same."""

STATE_WORDS = {
    Tri.YES: "[bold red]yes[/]",
    Tri.NO: "[green]no[/]",
    Tri.UNKNOWN: "[bold white on grey37] unknown [/]",
}
ACTION_COLOURS = {
    Action.NONE: "bold green",
    Action.WAIT: "bold white on grey37",
    Action.ALERT: "bold yellow",
    Action.ROLLBACK: "bold white on red",
}
EXIT_CODES = {
    Action.NONE: EXIT_GOOD,
    Action.WAIT: EXIT_INCONCLUSIVE,
    Action.ALERT: EXIT_BAD_QUALITY,
    Action.ROLLBACK: EXIT_BAD_QUALITY,
}
NEXT = {
    Action.NONE: "nothing is done",
    Action.WAIT: "nothing is done until more is known",
    Action.ALERT: "a person is told; no rollback starts",
}


def decide_command(
    service: Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
        ),
    ] = None,
    is_explained: Annotated[
        bool, typer.Option("--explain", help="Show the truth table with every input.")
    ] = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decide and write nothing down.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Decide whether a service goes back to a healthy snapshot.

    Reads golden runs, log scores and engine signals, and asks the service's policy, by default
    "(A and B) or C". What is not known is neither yes nor no. A decision for a rollback opens the
    incident in MLflow, once; 'quality rollback' and the DAG rollback do the rest.

    Exit codes: 0 nothing to do, 1 rollback or alert, 3 the server's history cannot be read, 4 not
    known.
    """
    decided = jobs.decide_service(
        load(config_path(config)),
        service,
        is_dry_run=is_dry_run,
        note=lambda text: stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True),
    )
    action = decided.decision.action
    if as_json:
        emit_json(jobs.record_of(decided))
    else:
        for problem in decided.gathered.problems:
            stderr.print(f"[yellow]![/] {escape(problem)}", highlight=False, soft_wrap=True)
        stdout.print(
            f"[{ACTION_COLOURS[action]}] {action.value} [/] {escape(decided.decision.headline)}",
            highlight=False,
            soft_wrap=True,
        )
        if is_explained:
            explain(decided)
    raise typer.Exit(EXIT_CODES[action])


def explain(decided: jobs.Decided) -> None:
    """Show the truth table: conditions, their inputs, the policy, the history, what happens."""
    decision = decided.decision
    for condition in decision.conditions:
        stdout.print()
        stdout.print(
            f"[bold]{condition.name}[/] {STATE_WORDS[condition.state]} {escape(condition.sentence)}",
            highlight=False,
            soft_wrap=True,
        )
        if condition.inputs:
            stdout.print(_inputs_table(condition))
    stdout.print()
    values = jobs.record_of(decided)["policy_values"]
    _line("policy", f"{decision.policy}  =  {values}  =  {decision.policy_state.value}")
    for text in _history(decided):
        _line("history", text)
    for reason in decision.reasons:
        _line("because", f"{reason.sentence} ({reason.code})")
    _line("then", _then(decided))


def _inputs_table(condition: Condition) -> Table:
    table = Table(
        "input", Column("value", overflow="fold"), "limit", "age", "alone", "counted", box=None
    )
    counted = [one for one in condition.inputs if one["counted"]]
    others = [one for one in condition.inputs if not one["counted"]]
    for one in counted + others[:MOST_SHOWN]:
        table.add_row(
            escape(f"{one['source']} {one['name']}"),
            escape(str(one["value"])),
            escape(str(one["limit"])),
            _age(one["age_s"]),
            STATE_WORDS[Tri(one["state"])],
            "yes" if one["counted"] else f"[dim]no: {escape(str(one['why_not']))}[/]",
        )
    if len(others) > MOST_SHOWN:
        table.add_row(f"[dim]{len(others) - MOST_SHOWN} older ones do not count[/]")
    return table


def _age(seconds: Any) -> str:
    if seconds is None:
        return "?"
    words = span(timedelta(seconds=seconds))
    return f"in {words}" if seconds < 0 else words


def _history(decided: jobs.Decided) -> list[str]:
    history, limits = decided.gathered.history, decided.limits
    evidence = decided.gathered.evidence
    going_on = history.in_progress
    until = history.cool_down_until(limits.cool_down_minutes)
    change = evidence.last_change_at
    today = history.opened_within(evidence.now)
    serves = (evidence.deployment_key or "unknown")[:8]
    return [
        f"open incident: {going_on.incident_id if going_on else 'none'}",
        f"cool-down: {f'until {clock(until)}' if until and until > evidence.now else 'none'}",
        f"rollbacks within 24 h: {today} of {limits.daily_limit}",
        f"deployment {serves}, {f'since {clock(change)}' if change else 'no change known'}",
    ]


def _then(decided: jobs.Decided) -> str:
    decision = decided.decision
    if decision.action is not Action.ROLLBACK:
        return NEXT[decision.action]
    target = (decision.target_snapshot_id or "?")[:12]
    doing = "would be opened" if decided.is_dry_run else "is open"
    asks = {
        "auto": "nobody is asked",
        "approve-first": "a person is asked before anything starts",
        "approve-last": "a person is asked before traffic moves",
    }.get(decision.mode, "")
    return f"incident {decision.incident_id} {doing}; first target {target}; {asks}"


def _line(name: str, text: str) -> None:
    stdout.print(f"[bold]{name:<8}[/] {escape(text)}", highlight=False, soft_wrap=True)
