"""``quality prune``: remove what is old and held by nothing."""

from __future__ import annotations

import getpass
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib.commands.output import AsJson, emit_json, plain, stderr, stdout
from quality_lib.errors import EXIT_GOOD, EXIT_OUTSIDE
from quality_lib.jobs import prune as jobs
from quality_lib.settings import config_path, load
from quality_lib.snapshots.retention import Judged, Kind

LONGEST_NAME = 60


def prune(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
        ),
    ] = None,
    service: Annotated[
        str | None, typer.Option("--service", help="Only this service; default: all of them.")
    ] = None,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go and what stays; touch nothing.")
    ] = False,
    by: Annotated[
        str | None, typer.Option("--by", help="Who does it; default: the user's name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove old snapshots, evidence, logs and run folders by the rules of 'retention'.

    What carries an alias, is pinned, is named by an open incident, or is one of the newest healthy
    snapshots always stays. Snapshots leave MLflow's registry; the folders of weights are not touched.
    Exit code 3 when something could not be looked at or removed; the rest is done all the same.
    """
    settings = load(config_path(config))
    names = sorted(settings.services) if service is None else [service]
    for name in names:
        settings.service(name)
    now = datetime.now(UTC)  # noqa: TID251 - the command line is where the clock comes in
    plan = jobs.plan_prune(settings, names, now, _note)
    author = by or getpass.getuser()
    done = jobs.Pruned((), ()) if is_dry_run else jobs.prune(settings, plan, author, _note)
    problems = [*plan.problems, *(f"{item.name}: {problem}" for item, problem in done.failed)]
    if as_json:
        emit_json({
            "dry_run": is_dry_run,
            "would_remove" if is_dry_run else "removed": plain(
                plan.going if is_dry_run else done.removed
            ),
            "kept": plain([item for item in plan.items if not item.is_removed]),
            "problems": problems,
            "headline": _headline(plan, done, is_dry_run),
        })
    else:
        _print(plan, is_dry_run)
        stdout.print(_headline(plan, done, is_dry_run), highlight=False)
        for problem in problems:
            stderr.print(f"[yellow]not done:[/] {escape(problem)}", highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_OUTSIDE if problems else EXIT_GOOD)


def _note(text: str) -> None:
    stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True)


def _headline(plan: jobs.PrunePlan, done: jobs.Pruned, is_dry_run: bool) -> str:
    items = plan.going if is_dry_run else done.removed
    counts = Counter(item.kind for item in items)
    what = ", ".join(f"{n} {_plural(kind, n)}" for kind, n in counts.items()) or "nothing"
    left = sum(not item.is_removed for item in plan.items)
    return f"{'would remove' if is_dry_run else 'removed'} {what}; {left} stay"


def _plural(kind: Kind, count: int) -> str:
    return kind.value if count == 1 or kind is Kind.EVIDENCE else f"{kind.value}s"


def _print(plan: jobs.PrunePlan, is_dry_run: bool) -> None:
    if not plan.items:
        return
    table = Table("service", "what", Column("name", min_width=12), "does", "why")
    for item in sorted(plan.items, key=lambda item: (not item.is_removed, item.service, item.kind)):
        does = "[red]would go[/]" if is_dry_run else "[red]goes[/]"
        table.add_row(
            escape(item.service),
            item.kind.value,
            escape(_short(item)),
            does if item.is_removed else "[green]stays[/]",
            escape(item.reason),
        )
    stdout.print(table)


def _short(item: Judged) -> str:
    if item.kind is Kind.SNAPSHOT:
        return item.name[:12]
    name = item.name
    return name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME:]}"
