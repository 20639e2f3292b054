"""``quality golden …``: run the golden set, make baselines, compare, check a service, publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from quality_lib.adapters.files.baseline import read_baseline
from quality_lib.adapters.files.bounds import read_bounds
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.run_folder import read_run
from quality_lib.commands import golden_drift, golden_set
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout
from quality_lib.commands.stage_progress import stage_progress
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD, EXIT_INCONCLUSIVE
from quality_lib.gates.bounds_record import bounds_record
from quality_lib.golden.comparison import Comparison
from quality_lib.golden.result import GoldenResult
from quality_lib.golden.verdict import GoldenVerdict
from quality_lib.jobs.golden import REPORT, check_service
from quality_lib.jobs.golden import publish as publish_result
from quality_lib.jobs.golden_baseline import make_baseline
from quality_lib.jobs.golden_run import Reference, compare_run, run_golden
from quality_lib.records import Outcome, Summary, Tri
from quality_lib.settings import Settings, config_path, load

app = typer.Typer(no_args_is_help=True, help="The golden set: run it, compare it, judge a service.")
golden_set.register(app)
golden_drift.register(app)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration file; default $QUALITY_CONFIG, then quality.yaml."
    ),
]
Service = Annotated[str, typer.Option("--service", help="Name of the service in quality.yaml.")]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="Folder of the run. An unfinished run in it is resumed, a finished one is kept.",
    ),
]

COLOURS = {
    Summary.HEALTHY: "bold green",
    Summary.DEGRADED: "bold yellow",
    Summary.FAILED: "bold red",
    Summary.INCONCLUSIVE: "bold white on grey37",
}
OUTCOME_COLOURS = {
    Outcome.PASSED: "green",
    Outcome.SUSPECT: "yellow",
    Outcome.FAILED: "red",
    Outcome.UNJUDGED: "grey62",
}


def _settings(config: Path | None) -> Settings:
    return load(config_path(config))


def _note(text: str) -> None:
    stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True)


@app.command("services")
def services(config: Config = None, as_json: AsJson = False) -> None:
    """List the configured services."""
    settings = _settings(config)
    names = sorted(settings.services)
    if as_json:
        emit_json({"services": names})
        return
    table = Table("service", "endpoint", "model", "golden set")
    for name in names:
        service = settings.services[name]
        table.add_row(name, service.endpoint, service.model, service.golden.cases)
    stdout.print(table)


@app.command("run")
def run(
    service: Service,
    out: Out,
    config: Config = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="Score this baseline's stored answers; default: the run's own answers."),
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Ask this address instead of the configured one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the golden set once against a service and keep every answer.

    Ctrl-C or a kill loses nothing: the same command resumes.
    """
    settings = _settings(config)
    chosen = settings.service(service)
    if endpoint:
        chosen = chosen.model_copy(update={"endpoint": endpoint})
    known = read_baseline(baseline) if baseline else None
    reference = Reference.of(known) if known else None
    with stage_progress("probes") as progress:
        done = run_golden(
            service,
            chosen,
            load_cases(chosen.golden.cases),
            out,
            reference=reference,
            progress=progress,
        )
    faults = [a for a in done.answers.values() if not a.is_judgeable]
    if as_json:
        emit_json({
            "run_id": done.run_id,
            "run_dir": out,
            "probes": len(done.answers),
            "faults": len(faults),
            "duration_s": done.duration_s,
        })
    else:
        stdout.print(
            f"run {done.run_id}: {len(done.answers)} probes, {len(faults)} without an answer, "
            f"{done.duration_s:.0f} s\nkept in {out}"
        )


@app.command("baseline")
def baseline(
    service: Service,
    out: Out,
    config: Config = None,
    repeats: Annotated[
        int | None, typer.Option(min=2, help="Healthy runs; default from quality.yaml.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a baseline of repeated healthy runs, with their spread.

    Only do this while the service is known to be good: later checks are held against it.
    """
    with stage_progress("probes") as progress:
        made = make_baseline(
            _settings(config), service, out, repeats=repeats, progress=progress, note=_note
        )
    if as_json:
        emit_json({
            "baseline": out,
            "runs": list(made.run_ids),
            "golden_digest": made.golden_digest,
            "cases": len(made.cases),
        })
    else:
        stdout.print(f"baseline of {len(made.cases)} cases and {len(made.run_ids)} runs in {out}")


@app.command("bounds")
def bounds(
    baseline_dir: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="Folder of a baseline, or a bounds.json.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show the bounds that a baseline's healthy answers taught."""
    learned = read_bounds(baseline_dir)
    if as_json:
        emit_json(bounds_record(learned))
        return
    table = Table("bound", "low", "high")
    for name, band in bounds_record(learned).items():
        if isinstance(band, dict):
            table.add_row(name.replace("_", " "), _number(band["low"]), _number(band["high"]))
        elif band is None and name != "false_alarm":
            table.add_row(name.replace("_", " "), "not learned", "")
    stdout.print(table)
    if learned.false_alarm is not None:
        stdout.print(
            f"learned from {learned.answers} answers, windows of {learned.window} tokens; with 95 % "
            f"confidence at most {learned.false_alarm:.1%} of such prompts go beyond a side, before "
            "the margin",
            highlight=False,
        )


@app.command("compare")
def compare(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of 'golden run'.")],
    baseline_dir: Annotated[Path, typer.Argument(metavar="BASELINE", help="File or folder.")],
    service: Service,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Hold a finished run against a baseline. Exit code 1 for bad quality or a change."""
    settings = _settings(config)
    comparison, verdict = compare_run(
        settings, settings.service(service), read_run(run_dir), read_baseline(baseline_dir)
    )
    if as_json:
        emit_json({"verdict": verdict, "comparison": comparison})
    else:
        print_verdict(comparison, verdict)
    raise typer.Exit(exit_code(verdict))


@app.command("check")
def check(
    service: Service,
    out: Out,
    config: Config = None,
    snapshot: Annotated[
        str, typer.Option(help="Snapshot to hold the service against: alias, number or id.")
    ] = "serving",
    as_json: AsJson = False,
) -> None:
    """Do the hourly check: start-up facts, golden run, comparison, verdict and report.

    With a calibration in the snapshot (quality golden calibrate), a change is decided by evidence over
    hours with a stated rate of false alarms; without one by bands.

    Exit codes: 0 healthy and unchanged, 1 degraded, failed or changed, 4 inconclusive, or nothing but
    another engine or host.
    """
    with stage_progress("probes") as progress:
        result = check_service(
            _settings(config), service, out, snapshot=snapshot, progress=progress, note=_note
        )
    if as_json:
        emit_json(summary_of(result, out))
    else:
        print_verdict(result.comparison, result.verdict)
        if result.drift is not None:
            golden_drift.print_drift(result.drift)
        stdout.print(f"report: {out / REPORT}")
    raise typer.Exit(exit_code(result.verdict))


@app.command("publish")
def publish(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of 'golden check'.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Store a finished check in MLflow; doing it again changes nothing."""
    published = publish_result(_settings(config), run_dir)
    if as_json:
        emit_json(published)
    else:
        stdout.print(f"run:    {published['run_url']}\nreport: {published['report_url']}")


def exit_code(verdict: GoldenVerdict) -> int:
    """Return the documented exit code of a verdict."""
    if verdict.is_good:
        return EXIT_GOOD
    if (
        verdict.changed is Tri.YES and not verdict.needs_calibration
    ) or verdict.degraded is Tri.YES:
        return EXIT_BAD_QUALITY
    return EXIT_INCONCLUSIVE


def summary_of(result: GoldenResult, out: Path) -> dict[str, Any]:
    """Return the small object that callers of ``golden check --json`` read."""
    verdict = result.verdict
    return {
        "service": result.service,
        "run_id": result.run_id,
        "run_dir": out,
        "snapshot_id": result.snapshot_id,
        "summary": verdict.summary,
        "changed": verdict.changed,
        "degraded": verdict.degraded,
        "headline": verdict.headline,
        "reasons": [{"code": r.code, "sentence": r.sentence} for r in verdict.reasons],
        "worst_cases": list(verdict.worst_cases),
        "suspected": verdict.suspected,
        "basis": verdict.basis,
        "drift": golden_drift.drift_record(result.drift),
        "report": out / REPORT,
        "mean_similarity": result.comparison.mean_similarity,
        "duration_s": result.duration_s,
    }


def print_verdict(comparison: Comparison, verdict: GoldenVerdict) -> None:
    """Show a verdict on a terminal: the headline first, then why, then the numbers."""
    stdout.print(f"[{COLOURS[verdict.summary]}] {verdict.headline} [/]")
    for reason in verdict.reasons:
        stdout.print(f"  · {escape(reason.sentence)}", highlight=False)
    if verdict.suspected:
        stdout.print(f"  suspected: {verdict.suspected}", highlight=False)
    stdout.print(f"  {escape(verdict.basis)}", highlight=False)
    table = Table("statistic", "channel", "value", "healthy", "limit", "cases", "outcome")
    for finding in comparison.findings:
        colour = OUTCOME_COLOURS[finding.outcome]
        table.add_row(
            finding.statistic,
            (finding.channel or "all").replace("_", " "),
            _number(finding.value),
            _number(finding.healthy),
            _number(finding.limit),
            str(finding.cases),
            f"[{colour}]{finding.outcome}[/]",
        )
    stdout.print(table)
    if verdict.worst_cases:
        stdout.print(f"worst cases: {', '.join(verdict.worst_cases)}", highlight=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
