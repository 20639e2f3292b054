"""``quality snapshot …``: register what serves now, and check it again later."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib import wiring
from quality_lib.commands.byte_progress import byte_progress, tell
from quality_lib.commands.output import AsJson, emit_json, plain, stderr, stdout
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD, EXIT_INCONCLUSIVE, EXIT_OUTSIDE
from quality_lib.jobs import snapshots as jobs
from quality_lib.jobs.drift_check import calibration_name
from quality_lib.records import Outcome
from quality_lib.settings import Settings, config_path, load
from quality_lib.snapshots.ports import ALIASES, Health, SnapshotEntry, check_alias

app = typer.Typer(no_args_is_help=True, help="Snapshots: what was served, kept in MLflow.")

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]
Service = Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")]
Ref = Annotated[str, typer.Argument(help="Alias, number, id, or the beginning of an id.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it; default: the user's name.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; goes into the audit trail.")]

SHORT_ID = 12

OUTCOME_COLOURS = {
    Outcome.PASSED: "green",
    Outcome.SUSPECT: "yellow",
    Outcome.FAILED: "bold red",
    Outcome.UNJUDGED: "yellow",
}


@app.command()
def create(
    service: Service,
    config: Config = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="Folder with baseline.json, its calibration.json too; all of it is kept."
        ),
    ] = None,
    is_live: Annotated[
        bool, typer.Option("--live/--no-live", help="Ask the running server for its facts.")
    ] = True,
    health: Annotated[Health, typer.Option(help="What is known of it.")] = Health.PENDING,
    alias: Annotated[str | None, typer.Option(help=f"Alias to set: {', '.join(ALIASES)}.")] = None,
    by: By = None,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the manifest and store nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Register what serves now as a snapshot."""
    settings, where = _settings(config)
    chosen = settings.service(service)
    if alias is not None:
        check_alias(alias)
    store = wiring.snapshot_store(settings)
    if not is_dry_run:
        store.list(service)  # a dead store shows now, not after an hour of hashing
    author = by or getpass.getuser()
    with byte_progress("hashing weights") as progress:
        draft = jobs.draft_snapshot(
            chosen,
            service_name=service,
            config=where,
            baseline=baseline,
            is_live=is_live,
            by=author,
            now=datetime.now(UTC),  # noqa: TID251 - the command line is where the clock comes in
            progress=progress,
            note=tell,
        )
    if is_dry_run:
        emit_json(draft.manifest)
        return
    stored = store.create(service, draft.manifest, draft.files, health)
    if alias is not None:
        store.set_alias(service, alias, stored.snapshot_id, "set at registration", author)
        stored = store.get(service, stored.snapshot_id)
    if as_json:
        emit_json(_entry(stored.entry))
    else:
        _print_entries([stored.entry])


@app.command()
def verify(
    snapshot: Ref,
    service: Service,
    config: Config = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder to hash; default: the service's own.")
    ] = None,
    is_server: Annotated[
        bool, typer.Option("--server/--no-server", help="Check the running server too.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Hash the files again and compare the running server with the snapshot.

    Exit code 1 on a mismatch, 3 when the server does not answer, 4 when it tells nothing to judge.
    """
    settings, _ = _settings(config)
    chosen = settings.service(service)
    stored = wiring.snapshot_store(settings).get(service, snapshot)
    with byte_progress("hashing weights") as progress:
        result = jobs.verify_snapshot(
            stored.manifest,
            chosen,
            weights=weights,
            ask_server=wiring.server_facts if is_server else None,
            progress=progress,
            note=tell,
        )
    if as_json:
        emit_json({"outcome": result.outcome, "service": service, **plain(result)})
    else:
        _print_verification(result)
    raise typer.Exit(_exit_code(result))


@app.command("list")
def list_command(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """List a service's snapshots, newest first."""
    settings, _ = _settings(config)
    entries = wiring.snapshot_store(settings).list(service)
    if as_json:
        emit_json({"service": service, "snapshots": [_entry(entry) for entry in entries]})
    elif entries:
        _print_entries(list(entries))
    else:
        stderr.print(f"'{service}' has no snapshot yet; register one: quality snapshot create")


@app.command()
def show(snapshot: Ref, service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Show a snapshot with its manifest."""
    settings, _ = _settings(config)
    stored = wiring.snapshot_store(settings).get(service, snapshot)
    has_calibration = calibration_name(stored) is not None
    if as_json:
        emit_json({
            **_entry(stored.entry),
            "has_calibration": has_calibration,
            "manifest": plain(stored.manifest),
        })
        return
    _print_entries([stored.entry])
    stdout.print(
        "calibration: yes, a change is decided with a stated false-alarm rate"
        if has_calibration
        else "calibration: none, bands decide; make one with 'quality golden calibrate'",
        highlight=False,
    )
    table = Table("part", "recorded", show_header=False)
    for part, value in plain(stored.manifest).items():
        for name, detail in value.items() if isinstance(value, dict) else [("", value)]:
            shown = f"{len(detail)} files" if name == "files" else str(detail)
            table.add_row(f"{part}.{name}" if name else part, escape(shown))
    stdout.print(table)


@app.command()
def alias(
    alias: Annotated[str, typer.Argument(help=f"One of: {', '.join(ALIASES)}.")],
    snapshot: Ref,
    service: Service,
    config: Config = None,
    reason: Reason = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Point an alias at a snapshot."""
    settings, _ = _settings(config)
    store = wiring.snapshot_store(settings)
    target = store.get(service, snapshot).snapshot_id
    store.set_alias(service, alias, target, reason, by or getpass.getuser())
    aliases = store.aliases(service)
    if as_json:
        emit_json({"service": service, "aliases": aliases})
    else:
        for name, snapshot_id in sorted(aliases.items()):
            stdout.print(f"{name:<14}{snapshot_id}", highlight=False)


@app.command()
def pin(
    snapshot: Ref,
    service: Service,
    config: Config = None,
    reason: Reason = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Keep a snapshot for good: 'quality prune' never removes it."""
    _pin(snapshot, service, config, True, reason, by, as_json)


@app.command()
def unpin(
    snapshot: Ref,
    service: Service,
    config: Config = None,
    reason: Reason = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Let a snapshot go when its time comes."""
    _pin(snapshot, service, config, False, reason, by, as_json)


@app.command()
def history(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Show everything that was done to a service's snapshots."""
    settings, _ = _settings(config)
    trail = wiring.snapshot_store(settings).audit(service)
    if as_json:
        emit_json({
            "service": service,
            "history": [{**plain(entry), "at": entry.at.isoformat()} for entry in trail],
        })
        return
    table = Table(Column("at", min_width=19), "by", "did", _id_column(), "detail", "result")
    for entry in trail:
        detail = ", ".join(f"{k}: {v}" for k, v in entry.detail.items() if v)
        at = f"{entry.at:%Y-%m-%d %H:%M:%S}"
        short = entry.snapshot_id[:SHORT_ID]
        table.add_row(at, escape(entry.by), entry.action, short, escape(detail), entry.result)
    stdout.print(table)


@app.command()
def eligible(service: Service, config: Config = None, as_json: AsJson = False) -> None:
    """Tell whether what serves now has been healthy long enough. Exit code 4 when it has not."""
    settings, where = _settings(config)
    now = datetime.now(UTC)  # noqa: TID251 - the command line is where the clock comes in
    answer = jobs.judge_eligibility(settings, service, now, where)
    if as_json:
        emit_json({"service": service, **plain(answer)})
    else:
        word = "[green]eligible[/]" if answer.eligible else "[yellow]not eligible[/]"
        stdout.print(f"{word}: {escape(answer.reason)}", highlight=False)
    raise typer.Exit(EXIT_GOOD if answer.eligible else EXIT_INCONCLUSIVE)


def _pin(
    snapshot: str,
    service: str,
    config: Path | None,
    is_pinned: bool,
    reason: str,
    by: str | None,
    as_json: bool,
) -> None:
    settings, _ = _settings(config)
    store = wiring.snapshot_store(settings)
    target = store.get(service, snapshot).snapshot_id
    store.set_pinned(service, target, is_pinned, reason, by or getpass.getuser())
    entry = store.get(service, target).entry
    if as_json:
        emit_json(_entry(entry))
    else:
        _print_entries([entry])


def _id_column() -> Column:
    """Return the column of ids; rich keeps the cells in it, so each table needs its own."""
    return Column("snapshot", no_wrap=True, min_width=SHORT_ID)


def _settings(config: Path | None) -> tuple[Settings, Path]:
    """Return the configuration and its file."""
    path = config_path(config)
    return load(path), path


def _entry(entry: SnapshotEntry) -> dict[str, Any]:
    return {**plain(entry), "deployment_key": entry.deployment_key}


def _exit_code(result: jobs.Verification) -> int:
    if result.outcome is Outcome.FAILED:
        return EXIT_BAD_QUALITY
    if result.server_problem:
        return EXIT_OUTSIDE
    return EXIT_GOOD if result.outcome is Outcome.PASSED else EXIT_INCONCLUSIVE


def _print_entries(entries: list[SnapshotEntry]) -> None:
    # An id that is cut off is of no use: the other columns fold first.
    table = Table(
        "#",
        _id_column(),
        "health",
        "aliases",
        Column("made", min_width=16),
        "by",
        "vLLM",
        "weights",
    )
    for entry in entries:
        table.add_row(
            str(entry.number),
            entry.snapshot_id[:SHORT_ID],
            entry.health,
            ", ".join((*entry.aliases, *(("pinned",) if entry.is_pinned else ()))),
            entry.created_at[:16].replace("T", " "),
            escape(entry.created_by),
            entry.vllm_version or "?",
            entry.weights_root_sha256[:8],
        )
    stdout.print(table)


def _print_verification(result: jobs.Verification) -> None:
    if result.differences:
        stdout.print(f"[bold red]FAILED[/]    files of {escape(str(result.folder))}")
        for difference in result.differences:
            stdout.print(
                "          " + escape(difference.sentence), highlight=False, soft_wrap=True
            )
    else:
        stdout.print(f"[green]PASSED[/]    files of {escape(str(result.folder))}")
    for verdict in result.server:
        colour = OUTCOME_COLOURS[verdict.outcome]
        stdout.print(
            f"[{colour}]{verdict.outcome:<10}[/]{escape(verdict.sentence)}",
            highlight=False,
            soft_wrap=True,
        )
    if result.server_problem:
        stdout.print(f"[yellow]UNJUDGED[/]  the server: {escape(result.server_problem)}")
