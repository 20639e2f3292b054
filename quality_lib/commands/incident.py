"""``quality incident …``: what happened to a service, from decision to post-mortem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib import wiring
from quality_lib.commands.output import AsJson, emit_json, plain, stderr, stdout
from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.settings import Settings, config_path, load

app = typer.Typer(no_args_is_help=True, help="Incidents: decisions, rollbacks and their reports.")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]

_COLOURS = {
    "open": "yellow",
    "rolling": "yellow",
    "done": "green",
    "aborted": "red",
    "failed": "red",
}


@app.command("list")
def list_command(
    service: Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")],
    config: Config = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The newest so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List a service's incidents, newest first."""
    settings = _settings(config)
    settings.service(service)
    records = wiring.incident_store(settings).history(service, limit)
    if as_json:
        emit_json({"service": service, "incidents": [_record(record) for record in records]})
        return
    if not records:
        stderr.print(f"'{service}' has had no incident")
        return
    table = Table(Column("incident", no_wrap=True), "state", "opened", "closed", "target", "reason")
    for record in records:
        table.add_row(
            escape(record.incident_id),
            f"[{_COLOURS[record.state]}]{record.state}[/]",
            f"{record.opened_at:%Y-%m-%d %H:%M}",
            f"{record.closed_at:%Y-%m-%d %H:%M}" if record.closed_at else "",
            (record.target_snapshot_id or "")[:12],
            escape(record.reason),
        )
    stdout.print(table)


@app.command()
def show(
    incident: Annotated[str, typer.Argument(help="The incident's id.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show an incident with the decision behind it and where its post-mortem is."""
    store = wiring.incident_store(_settings(config))
    record = store.find(incident)
    if record is None:
        raise BadInput(
            f"there is no incident '{incident}'",
            fix="list them: quality incident list --service NAME",
        )
    decision = store.decision(incident)
    if as_json:
        emit_json({**_record(record), "decision": decision})
        return
    table = Table("part", "recorded", show_header=False)
    for name, value in _record(record).items():
        table.add_row(name, escape(str(value or "")))
    if decision.get("headline"):
        table.add_row("decision", escape(str(decision["headline"])))
    for condition in decision.get("conditions") or ():
        told = f"{condition.get('state', '')}: {condition.get('sentence', '')}"
        table.add_row(f"condition {condition.get('name', '?')}", escape(told))
    stdout.print(table)


def _settings(config: Path | None) -> Settings:
    return load(config_path(config))


def _record(record: IncidentRecord) -> dict[str, Any]:
    found: dict[str, Any] = plain(record)
    return {
        **found,
        "opened_at": record.opened_at.isoformat(),
        "closed_at": record.closed_at.isoformat() if record.closed_at else None,
    }
