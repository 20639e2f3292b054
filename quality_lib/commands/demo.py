"""``quality demo``: the story of the README, told on real parts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from quality_lib import settings
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout
from quality_lib.errors import QualityError
from quality_lib.jobs.demo import FULL, USERS, USUAL, Demo
from quality_lib.jobs.demo_story import Story


def demo(
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Ask the whole golden set instead of the core and an eighth of the rest: "
            "half an hour or more on two cores.",
        ),
    ] = False,
    users: Annotated[
        int,
        typer.Option(min=2, max=64, help="Users at a time, half of them streaming long answers."),
    ] = USERS,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="Leave everything running until Enter, to look around; default: on a terminal.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell the whole story on real vLLM, nginx, Airflow, MLflow and S3.

    Registers a healthy snapshot while users ask, deploys a copy of the weights with one flipped bit that
    keeps saying 200, lets the hourly DAG and the log scoring find it, and the rollback DAG take the users
    back. Exit code 1 if a step does not turn out as expected.
    """
    every = FULL if full else USUAL
    story = Demo(settings.home(), Path.cwd(), _say, every=every, users=users)
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A closed terminal must end the stack as Ctrl-C does.
        signal.signal(number, signal.default_int_handler)
    try:
        with story.running() as told:
            if as_json:
                emit_json(told)
            else:
                _show(told)
            stay = wait if wait is not None else sys.stdin.isatty() and not as_json
            if stay and told.is_as_expected:
                stdout.print("\nEverything still runs. Press Enter to end it.")
                sys.stdin.readline()
    except QualityError as error:
        if as_json:
            emit_json(story.story)
        else:
            _table(story.story)
        # The reason comes last: that is what a person sees, and what a build keeps of a long output.
        stderr.print(
            f"[bold red]the story broke off:[/] {escape(str(error))}",
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(error.exit_code) from None
    if not as_json:
        stdout.print("Nothing is left running. `make up` opens the same stack again.")


def _say(line: str) -> None:
    stderr.print(line, highlight=False, soft_wrap=True, markup=False)


def _table(story: Story) -> None:
    table = Table("", "step", "expected", "found", "seconds", title="What happened")
    for step in story.steps:
        mark = "[green]✓[/]" if step.is_as_expected else "[red]✗[/]"
        table.add_row(mark, step.title, step.expected, escape(step.headline), f"{step.seconds:.0f}")
    total = sum(step.seconds for step in story.steps)
    table.add_section()
    table.add_row("", "together", "", "", f"{total:.0f}")
    stdout.print(table)


def _phases(story: Story) -> None:
    """Show what users got, and how long everything took from the bad deployment on."""
    table = Table("users' requests", "all", "failed or cut", "garbage", "slowest", title="Users")
    for phase in story.phases:
        share = f"{phase.garbage} ({phase.garbage / phase.requests:.0%})"
        failed = f"[red]{phase.failed}[/]" if phase.failed else "0"
        table.add_row(
            escape(phase.name), str(phase.requests), failed, share, f"{phase.slowest_s:.1f} s"
        )
    stdout.print(table)
    moments = Table("since the damaged weights serve", "seconds", title="How long it took")
    for what, seconds in story.moments.items():
        moments.add_row(escape(what), f"{seconds:.0f}")
    stdout.print(moments)


def _show(story: Story) -> None:
    _table(story)
    _phases(story)
    for report in story.reports:
        stdout.print(f"\n[bold]{escape(report['headline'])}[/]", highlight=False)
        if report["file"]:  # a post-mortem is in MLflow alone
            stdout.print(f"  report  {report['file']}", soft_wrap=True)
        stdout.print(f"  MLflow  {report['url']}", soft_wrap=True)
    for alert in story.alerts:
        if alert.get("severity") == "critical":
            stdout.print(f"\nalert received: {alert.get('headline')}", soft_wrap=True, markup=False)
    for url in story.run_urls:
        stdout.print(f"Airflow run  {url}", soft_wrap=True, highlight=False)
    if story.addresses is not None:
        at = story.addresses
        stdout.print(
            f"\nAirflow {at.airflow}   login {at.airflow_user} / {at.airflow_password}\n"
            f"MLflow  {at.mlflow}\nvLLM    {story.endpoint}",
            soft_wrap=True,
            highlight=False,
        )
