"""What ``quality rollback`` prints of a plan and of a step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from rich.markup import escape

from quality_lib.adapters.files.journal import IncidentFolder
from quality_lib.commands.output import emit_json, plain, stdout
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD
from quality_lib.jobs import rollback as jobs
from quality_lib.jobs.rollback_plan import lines
from quality_lib.rollout.journal import Journal


def plan_record(
    journal: Journal, folder: IncidentFolder | None, is_dry_run: bool
) -> dict[str, Any]:
    """Return a plan with its incident as ``--json`` prints it."""
    made = journal.plan
    target = journal.target or made.candidates[0]
    return {
        "incident_id": journal.incident_id,
        "incident_dir": folder.path if folder else None,
        "service": journal.service,
        "target": target.snapshot_id,
        "mode": journal.mode,
        "plan": {
            **plain(asdict(made)),
            "lines": lines(made),
            "expected_s": made.expected_s,
            "has_outage": made.has_outage,
        },
        "moves": [{"index": move.index, "name": move.name} for move in made.moves],
        "headline": made.headline,
        "dry_run": is_dry_run,
    }


def print_plan(journal: Journal, folder: IncidentFolder | None) -> None:
    """Print a plan for a person."""
    stdout.print(
        f"incident {journal.incident_id}, {journal.mode}: {journal.reason}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    for line in lines(journal.plan):
        stdout.print(line, highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        stdout.print(f"kept in {folder.path}", highlight=False, soft_wrap=True)


def tell_result(result: jobs.StepResult, as_json: bool) -> None:
    """Print how a step stands and end with the exit code that says so."""
    if as_json:
        emit_json(result)
    else:
        mark = "[green]✓[/]" if result.done else "[bold red]✗[/]"
        stdout.print(f"{mark} {result.step}: {escape(result.headline)}", highlight=False)
        if result.next:
            stdout.print(f"next: {result.next}", highlight=False)
        if result.url:
            stdout.print(f"post-mortem: {result.url}", highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_GOOD if result.done else EXIT_BAD_QUALITY)
