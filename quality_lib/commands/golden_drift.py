"""``quality golden sentinel / calibrate``: which answers are watched for change, and what health is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from quality_lib.adapters.files.baseline import read_baseline
from quality_lib.adapters.files.sentinel import write_sentinel
from quality_lib.commands.output import AsJson, emit_json, plain, stderr, stdout
from quality_lib.commands.stage_progress import stage_progress
from quality_lib.drift.limits import check_loads
from quality_lib.drift.paired import OF_TEXTS
from quality_lib.errors import BadInput
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.jobs import calibration as jobs
from quality_lib.jobs.sentinel import sentinel_of
from quality_lib.settings import Settings, config_path, load

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]
Service = Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")]
Baseline = Annotated[Path, typer.Option("--baseline", help="Folder of 'quality golden baseline'.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the ``golden`` group."""
    app.command("sentinel")(sentinel)
    app.command("calibrate")(calibrate)


def sentinel(
    baseline: Baseline,
    out: Annotated[
        Path, typer.Option("--out", help="File to write: JSON when it ends with .json, else text.")
    ],
    service: Annotated[
        str | None,
        typer.Option("--service", help="Name of the service; default: the baseline's own."),
    ] = None,
    config: Config = None,
    cases: Annotated[
        int | None, typer.Option(min=1, help="Cases at the most; default from quality.yaml.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=16, help="Scored tokens at the most; default likewise.")
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option(
            help="Folder of recorded faults (Parquet, as the silent-fault matrix makes them): choose the cases that "
            "see them. Take recordings that nothing is judged by later."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the few cases that are watched for change, and say why each was taken.

    Asks no server. 'golden calibrate' chooses the same by itself; write it down to look at it, or to
    edit it and pass it with --sentinel.
    """
    known = read_baseline(baseline)
    settings = _settings(config)
    found = sentinel_of(
        settings.service(service or known.service),
        known,
        count=cases,
        tokens=tokens,
        faults=faults,
    )
    write_sentinel(out, found)
    if as_json:
        emit_json({
            "file": out,
            "cases": [plain(pick) for pick in found.picks],
            "scored_tokens": found.scored_tokens,
            "dropped": dict(found.dropped),
            "unseen_faults": list(found.unseen),
        })
        return
    table = Table("case", "tokens", "why it was taken")
    for pick in found.picks:
        table.add_row(escape(pick.case_id), str(pick.scored_tokens), escape(pick.why))
    stdout.print(table)
    stdout.print(
        f"{len(found.picks)} cases, {found.scored_tokens} scored tokens a round, "
        f"{len(found.dropped)} cases left out as restless or without scores: {out}",
        highlight=False,
    )
    if found.unseen:
        _note(f"{len(found.unseen)} recorded faults are seen by no case: {', '.join(found.unseen)}")


def calibrate(
    service: Service,
    baseline: Baseline,
    checks: Annotated[
        int, typer.Option("--checks", min=1, help="Healthy checks of this server start.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the healthy checks, over all server starts.")
    ],
    config: Config = None,
    loads: Annotated[
        str | None,
        typer.Option(help="Probes at once, such as 1,4,16; default from quality.yaml."),
    ] = None,
    decode_every: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of so many bursts of four checks one also lets the model answer the set, which generates about half as "
            "many tokens as a check scores; 0: none. Default from quality.yaml.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the checks in --out: after a kill, or another start."
        ),
    ] = False,
    sentinel: Annotated[
        Path | None, typer.Option(help="File of 'golden sentinel'; default: chosen anew.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Name of this server start, where the server's /metrics does not tell."),
    ] = None,
    accepted_by: Annotated[
        str | None,
        typer.Option(help="Who vouches for the service although a change was suspected."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn what the scores of a healthy service look like; writes calibration.json beside the baseline.

    Only do this while the service is known to be good. Every load is asked with a warm and a cold
    cache. Some checks also let the model answer: when 200 have (of 800 by default), sampler and decoding
    are judged by their healthy rate too, and every hourly check lets it answer the set; before that they
    stay out. A calibration needs several server starts: restart the server and run the same command with
    --resume. Exit code 4 while there is too little, with what is missing; everything is kept.
    """
    with stage_progress() as progress:
        made = jobs.calibrate_service(
            _settings(config),
            service,
            baseline,
            out,
            checks=checks,
            loads=_loads(loads),
            decode_every=decode_every,
            resume=resume,
            sentinel=sentinel,
            start=start,
            accepted_by=accepted_by,
            progress=progress,
            note=_note,
        )
    known = made.calibration
    if as_json:
        emit_json({
            "calibration": made.file,
            "checks_made": made.checks_made,
            "checks_kept": made.checks_kept,
            "checks": known.checks,
            "starts": known.starts,
            "blocks": len(known.blocks),
            "probes": len(known.healthy),
            "is_deterministic": known.is_deterministic,
            "exact_up_to": known.exact_up_to,
            "recheck_correlation": known.recheck_correlation,
            "largest_e": known.largest_e,
            "accepted_by": known.accepted_by,
            "checks_decoded": made.checks_decoded,
            "statistics": sorted(known.known),
        })
        return
    if known.accepted_by:
        _note(f"accepted by {known.accepted_by}, which the calibration keeps")
    most = f"one check brings an e-value of {known.largest_e:.3g} at the most"
    if known.is_deterministic:
        way = "every score repeats bit for bit, so any difference counts"
    elif known.exact_up_to:
        way = (
            f"with up to {known.exact_up_to} at once every score repeats bit for bit, so any difference counts; in "
            f"larger batches {most}"
        )
    else:
        way = most
    stdout.print(
        f"calibrated on {known.checks} checks, {known.starts} server starts and {len(known.blocks)} "
        f"blocks: {way}\n{_texts(made)}\nkept in {made.file}; 'quality snapshot create --baseline' takes it along",
        highlight=False,
    )


def _texts(made: jobs.Calibrated) -> str:
    """Say whether what the model answers is judged, beside how it scores."""
    judged = [name for name in OF_TEXTS if name in made.calibration.known]
    answered = f"{made.checks_decoded} checks let the model answer"
    if judged:
        return f"{answered}: {' and '.join(judged)} are judged by their healthy rate too"
    return f"{answered}: too few to judge sampler and decoding, which stay out"


def drift_record(drift: DriftRecord | None) -> dict[str, Any] | None:
    """Return what callers of ``golden check --json`` read of the decision; the state stays inside."""
    if drift is None:
        return None
    shown = plain(drift)
    del shown["state"]
    return {**shown, "rechecks": drift.rechecks}


def print_drift(drift: DriftRecord) -> None:
    """Show a decision on a terminal."""
    table = Table("changed", "layer", "e-value", "evidence", "alarm from", "severity", "re-checks")
    table.add_row(
        drift.changed,
        drift.layer,
        _number(drift.e_value),
        _number(drift.level),
        _number(drift.alarm_level),
        drift.severity,
        str(drift.rechecks),
    )
    stdout.print(table)
    stdout.print(f"evidence of earlier checks: {escape(drift.state_from)}", highlight=False)


def _loads(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput(f"'{text}' is no list of loads", field="--loads", fix="such as 1,4,16")
    try:
        return check_loads([int(part) for part in parts])
    except ValueError as error:
        raise BadInput(f"'{text}' {error}", field="--loads", fix="such as 1,4,16") from None


def _settings(config: Path | None) -> Settings:
    return load(config_path(config))


def _note(text: str) -> None:
    stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
