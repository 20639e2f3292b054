"""``quality rollback …``: plan, do step by step or at once, watch, abort."""

from __future__ import annotations

import getpass
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from quality_lib.adapters.files.journal import IncidentFolder
from quality_lib.commands.output import AsJson, emit_json, plain, stderr, stdout
from quality_lib.commands.rollback_view import plan_record, print_plan, tell_result
from quality_lib.commands.stage_progress import stage_progress
from quality_lib.errors import EXIT_GOOD, BadInput, OutsideFailure
from quality_lib.jobs import rollback as jobs
from quality_lib.jobs.rollback_make import make_parts
from quality_lib.jobs.rollback_parts import Parts
from quality_lib.jobs.rollback_plan import Wishes, lines, plan_rollback
from quality_lib.rollout.journal import Journal
from quality_lib.rollout.machine import Step, next_step
from quality_lib.rollout.strategy import StepName
from quality_lib.settings import config_path, load

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Take a service back to a healthy snapshot.\n\n"
        "'plan --dry-run' prints exactly what would happen and touches nothing; 'run' does all of it "
        "from a terminal; Airflow does the same by 'plan' and one 'step' after the other. Every step "
        "can be repeated: a killed one goes on where it stopped."
    ),
)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]
Service = Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")]
Target = Annotated[
    str | None,
    typer.Option(
        help="Alias, number or id to go back to; default: the newest healthy other snapshot."
    ),
]
Incident = Annotated[
    str | None, typer.Option(help="Id that 'quality decide' has given; default: a new one.")
]
StrategyName = Annotated[
    str | None, typer.Option("--strategy", help="surge, rolling or in-place; default: configured.")
]
StepPercent = Annotated[
    int | None, typer.Option("--step-percent", help="25, 50 or 100; default: configured.")
]
Soak = Annotated[
    float | None, typer.Option("--soak", min=0, help="Seconds that each move is watched.")
]
Mode = Annotated[
    str | None, typer.Option(help="auto, approve-first or approve-last; default: configured.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; goes into the post-mortem.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it; default: the user's name.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

CHOICES = {
    "strategy": ("surge", "rolling", "in-place"),
    "step_percent": (25, 50, 100),
    "mode": ("auto", "approve-first", "approve-last", "alert-only"),
}


@app.command()
def plan(
    service: Service,
    config: Config = None,
    target: Target = None,
    incident: Incident = None,
    strategy: StrategyName = None,
    step_percent: StepPercent = None,
    soak: Soak = None,
    mode: Mode = None,
    reason: Reason = "",
    by: By = None,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, open no incident.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Plan a rollback and open its incident; nothing is started or moved yet.

    The same incident again returns the plan that it has.
    """
    wishes = _wishes(target, incident, strategy, step_percent, soak, mode, reason, by)
    with _parts(config, service) as parts:
        journal, folder = plan_rollback(parts, wishes, is_dry_run=is_dry_run)
    if as_json:
        emit_json(plan_record(journal, folder, is_dry_run))
    else:
        print_plan(journal, folder)


@app.command()
def step(
    name: Annotated[
        StepName,
        typer.Argument(
            help="validate, start, check, move, retire, recover, report, abort, stop-staging."
        ),
    ],
    incident_dir: Annotated[
        Path, typer.Option("--incident-dir", help="The folder that 'plan' has named.")
    ],
    index: Annotated[int | None, typer.Option("--index", help="Which move, from 0 on.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Do one step. Exit code 1: its check found bad quality, and 'step abort' is what follows.

    A step that is done says so again. 3: something outside failed, and the same command goes on.
    """
    if (name is StepName.MOVE) != (index is not None):
        raise BadInput("--index names a move, and only a move has one", field="--index")
    service = IncidentFolder(incident_dir).read().service
    with _parts(config, service) as parts:
        result = jobs.perform(parts, incident_dir, Step(name, index))
    tell_result(result, as_json)


@app.command()
def run(
    service: Service,
    config: Config = None,
    target: Target = None,
    incident: Incident = None,
    strategy: StrategyName = None,
    step_percent: StepPercent = None,
    soak: Soak = None,
    mode: Mode = None,
    reason: Reason = "",
    by: By = None,
    is_sure: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Do the whole rollback from a terminal; an unfinished one goes on.

    It prints the plan and asks before it starts, and with 'approve-last' before all traffic moves.
    """
    wishes = _wishes(target, incident, strategy, step_percent, soak, mode, reason, by)
    with _parts(config, service) as parts:
        journal, folder = plan_rollback(parts, wishes, is_dry_run=not is_sure)
        stderr.print("\n".join(lines(journal.plan)), highlight=False, markup=False, soft_wrap=True)
        if not is_sure:
            if not typer.confirm("Do it?", err=True):
                raise typer.Exit(EXIT_GOOD)
            journal, folder = plan_rollback(parts, wishes)
        assert folder is not None  # noqa: S101 - no dry run from here on

        def between(following: Step, now: Journal) -> bool:
            stderr.print(f"▶ {following}", highlight=False, markup=False)
            is_last = following == Step(StepName.MOVE, len(now.plan.moves) - 1)
            if is_sure or not is_last or now.mode != "approve-last":
                return True
            return typer.confirm("All traffic moves now. Go on?", err=True)

        result = jobs.follow(parts, folder.path, between)
    tell_result(result, as_json)


@app.command()
def status(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Show the rollback in progress, else the last one."""
    with _parts(config, service) as parts:
        found = jobs.status(parts)
    if found is None:
        if as_json:
            emit_json({"service": service, "incident_id": None})
        else:
            stderr.print(f"'{service}' has never been rolled back")
        return
    journal, folder = found
    if as_json:
        following = next_step(journal)
        emit_json({
            **plan_record(journal, folder, False),
            "state": journal.state,
            "next": str(following) if following else None,
            "journal": folder.plain(),
        })
        return
    print_plan(journal, folder)
    table = Table("at", "step", "what")
    for event in journal.events:
        table.add_row(f"{event.at:%H:%M:%S}", event.step, escape(event.what))
    stdout.print(table)
    following = next_step(journal)
    stdout.print(f"{journal.state}; next: {following or 'nothing'}", highlight=False)


@app.command()
def abort(
    service: Service,
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the post-mortem.")],
    config: Config = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Stop the rollback in progress and put the starting weights back."""
    with _parts(config, service) as parts:
        result = jobs.request_abort(parts, reason, by or getpass.getuser())
    tell_result(result, as_json)


@app.command()
def reconcile(
    service: Annotated[str | None, typer.Option(help="Default: every service.")] = None,
    older_than_minutes: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Default: longer than any step or approval may take; 15 where the target serves.",
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """End rollbacks whose driver is gone, and old instances that were kept long enough.

    Where the target serves everything, the last steps are done; else the starting weights come back.
    Exit code 3: one could not be ended, because something outside did not answer.
    """
    settings = load(config_path(config))
    older = None if older_than_minutes is None else timedelta(minutes=older_than_minutes)
    names = [service] if service else sorted(settings.services)
    results: list[jobs.StepResult] = []
    for name in names:
        if settings.service(name).route.kind == "none":
            continue
        with _parts(config, name) as parts:
            results += jobs.reconcile(parts, older)
    if as_json:
        emit_json({"reconciled": [plain(result) for result in results]})
    else:
        for result in results:
            stdout.print(
                f"{result.incident_id}: {result.headline}", highlight=False, soft_wrap=True
            )
        if not results:
            stdout.print("nothing to do")
    if stuck := [f"{r.incident_id}: {r.headline}" for r in results if r.state == "outside"]:
        raise OutsideFailure("; ".join(stuck))


@contextmanager
def _parts(config: Path | None, service: str) -> Generator[Parts]:
    path = config_path(config)
    settings = load(path)
    with stage_progress("probes") as progress:
        yield make_parts(settings, service, path, _note, progress)


def _note(text: str) -> None:
    stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True)


def _wishes(
    target: str | None,
    incident: str | None,
    strategy: str | None,
    step_percent: int | None,
    soak: float | None,
    mode: str | None,
    reason: str,
    by: str | None,
) -> Wishes:
    given: dict[str, Any] = {"strategy": strategy, "step_percent": step_percent, "mode": mode}
    for name, value in given.items():
        if value is not None and value not in CHOICES[name]:
            option = "--" + name.replace("_", "-")
            known = ", ".join(map(str, CHOICES[name]))
            raise BadInput(f"{value!r} is no {option}", field=option, fix=f"use one of: {known}")
    return Wishes(
        target=target,
        incident=incident,
        soak_s=soak,
        reason=reason,
        by=by or getpass.getuser(),
        **given,
    )
