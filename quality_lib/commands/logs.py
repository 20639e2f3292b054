"""``quality logs …``: score the answers in a production log, window by window."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from quality_lib.adapters.logs.score_files import REPORT
from quality_lib.commands.golden import COLOURS, OUTCOME_COLOURS, Config, Service
from quality_lib.commands.output import AsJson, emit_json, stderr, stdout
from quality_lib.commands.stage_progress import stage_progress
from quality_lib.errors import EXIT_BAD_QUALITY, EXIT_GOOD, EXIT_INCONCLUSIVE, BadInput
from quality_lib.exchanges.watermark import Watermark, watermark_from
from quality_lib.exchanges.window import Window
from quality_lib.jobs import scoring as jobs
from quality_lib.jobs.clock import utc_now
from quality_lib.scoring.result import Depth, GroupRate, PartResult, ScoreResult, by_cause
from quality_lib.scoring.tally import Kind
from quality_lib.settings import ServiceSettings, Settings, config_path, load

app = typer.Typer(no_args_is_help=True, help="The production log: score a window of its answers.")

Out = Annotated[
    Path,
    typer.Option(
        "--out", help="Folder of the window. What is done there is kept, the rest is resumed."
    ),
]
Length = Annotated[
    str | None, typer.Option("--window", help="The newest stretch that has settled: 10m, 1h, 2d.")
]
From = Annotated[str | None, typer.Option("--from", help="Start of the window, ISO 8601.")]
To = Annotated[str | None, typer.Option("--to", help="End of the window, ISO 8601.")]
IsDeep = Annotated[
    bool,
    typer.Option(
        "--deep", help="Ask models too: similarity, reference perplexity, replay; fewer answers."
    ),
]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LENGTH = re.compile(r"([1-9]\d{0,5})\s*([smhd])")
_PART = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@app.command("partitions")
def partitions(
    service: Service,
    out: Out,
    config: Config = None,
    window: Length = None,
    start: From = None,
    end: To = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Tasks that share the window; default quality.yaml.")
    ] = None,
    deep: IsDeep = False,
    watermark: Annotated[
        str | None,
        typer.Option(help="What the merge before this one returned as watermark, as JSON."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan a window: which partitions there are to score.

    Without a window it is the one that is due after the watermark; when none is due yet, there are no
    partitions.
    """
    settings = load(config_path(config))
    chosen = settings.service(service)
    depth = Depth.DEEP if deep else Depth.QUICK
    mark = _watermark(watermark)
    known = jobs.stored_plan(out)
    asked = known.window if known else _asked_window(chosen, window, start, end)
    asked = asked or jobs.due_window(chosen, depth, mark, utc_now())
    if asked is None:
        _say_partitions({"due": False, "service": service, "partitions": []}, as_json)
        return
    plan = jobs.plan_window(settings, service, asked, depth, out, count=count, watermark=mark)
    number = len(plan.parts)
    _say_partitions(
        {
            "due": True,
            "service": service,
            "depth": depth,
            "start": plan.window.start.isoformat(),
            "end": plan.window.end.isoformat(),
            "partitions": [f"{n + 1}/{number}" for n in range(number)],
            "run_dir": out,
        },
        as_json,
    )


@app.command("score")
def score(
    out: Out,
    service: Annotated[
        str | None, typer.Option(help="Name of the service; not needed for a planned folder.")
    ] = None,
    config: Config = None,
    window: Length = None,
    start: From = None,
    end: To = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="Score this one of the window's partitions, as 2/4; default: all, merged."
        ),
    ] = None,
    deep: IsDeep = False,
    as_json: AsJson = False,
) -> None:
    """Score a window of the log and judge it; or one partition, for 'quality logs merge'.

    Exit codes: 0 healthy (or the partition is done), 1 degraded, failed or another model, 4 inconclusive:
    no data, too few answers, unreadable or redacted logs. Never a pass.
    """
    settings = load(config_path(config))
    depth = Depth.DEEP if deep else Depth.QUICK
    index, count = _part(partition)
    plan = _planned(settings, service, out, depth, (window, start, end), count)
    number = len(plan.parts)
    if count is not None and count != number:
        raise BadInput(f"the window has {number} partitions, not {count}", field="--partition")
    with stage_progress() as progress:
        if index is not None:
            part = jobs.score_partition(settings, out, index, progress=progress, note=_note)
            _say_part(part, out, as_json)
            return
        for n in range(number):
            jobs.score_partition(settings, out, n, progress=progress, note=_note)
    _finish(settings, out, as_json)


@app.command("merge")
def merge(
    out: Annotated[Path, typer.Argument(metavar="DIR")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Put the scored partitions of a window together, judge it, and write score and report.

    Exit codes as of 'quality logs score'; 3 when a partition was not scored.
    """
    _finish(load(config_path(config)), out, as_json)


@app.command("publish")
def publish(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a merged score.")],
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Store a merged score in MLflow, and its rows where quality.yaml says; twice is once."""
    published = jobs.publish(load(config_path(config)), out)
    if as_json:
        emit_json(published)
        return
    stdout.print(f"run:    {published['run_url']}\nreport: {published['report_url']}")
    if published["rows"]:
        stdout.print(f"rows:   {published['rows']}")


def _planned(
    settings: Settings,
    service: str | None,
    out: Path,
    depth: Depth,
    asked: tuple[str | None, str | None, str | None],
    count: int | None,
) -> jobs.Plan:
    """Return the folder's plan, made now when it has none."""
    known = jobs.stored_plan(out)
    name = service or (known.service if known else None)
    if name is None:
        raise BadInput("says no service", fix="pass --service, or a folder of 'logs partitions'")
    chosen = settings.service(name)
    window = _asked_window(chosen, *asked)
    if known is not None:
        if asked[1] is not None and window != known.window:
            raise BadInput(
                "holds another window", file=out, fix="choose another --out, or remove that folder"
            )
        # A relative window moves with the clock; the folder keeps the one that was begun.
        wanted = depth if depth is Depth.DEEP else known.depth
        return jobs.plan_window(settings, name, known.window, wanted, out)
    if window is None:
        minutes = (
            chosen.scoring.every_minutes
            if depth is Depth.QUICK
            else chosen.scoring.deep_every_minutes or 60
        )
        window = jobs.last_window(chosen, timedelta(minutes=minutes), utc_now())
    return jobs.plan_window(settings, name, window, depth, out, count=count)


def _finish(settings: Settings, out: Path, as_json: bool) -> None:
    result = jobs.merge_window(settings, out, note=_note)
    mark = jobs.next_watermark(settings, out, result)
    if as_json:
        emit_json({
            **summary_of(result, out),
            # The window is too thin yet and will be read again together with the next one.
            "waits": mark is None and jobs.is_thin(result),
            "watermark": mark.as_dict() if mark else None,
        })
    else:
        print_score(result)
        stdout.print(f"report: {out / REPORT}", soft_wrap=True)
    raise typer.Exit(exit_code(result))


def exit_code(result: ScoreResult) -> int:
    """Return the documented exit code of a score."""
    if result.verdict.is_bad:
        return EXIT_BAD_QUALITY
    return EXIT_GOOD if result.verdict.is_good else EXIT_INCONCLUSIVE


def summary_of(result: ScoreResult, out: Path) -> dict[str, Any]:
    """Return the small object that callers of ``--json`` read: numbers and codes, no texts of users."""
    rate, verdict = result.whole.rate, result.verdict
    return {
        "service": result.service,
        "score_id": result.score_id,
        "depth": result.depth,
        "run_dir": out,
        "start": result.start,
        "end": result.end,
        "summary": verdict.summary,
        "changed": verdict.changed,
        "headline": verdict.headline,
        "reasons": [{"code": r.reason, "sentence": r.sentence} for r in verdict.reasons],
        "entries": result.counts.entries,
        "judged": result.whole.judged,
        "low": result.whole.low,
        "low_quality_rate": rate.share if rate else None,
        "rate_low": rate.low if rate else None,
        "rate_high": rate.high if rate else None,
        "dropped": by_cause(result.counts),
        "top_reasons": {r.code: r.rows for r in result.reasons[:10]},
        "worst_cases": [row.id for row in result.worst[:10]],
        "report": out / REPORT,
        "duration_s": result.duration_s,
    }


def print_score(result: ScoreResult) -> None:
    """Show a score on a terminal: the headline first, then why, then the numbers."""
    stdout.print(f"[{COLOURS[result.verdict.summary]}] {escape(result.verdict.headline)} [/]")
    for reason in result.verdict.reasons:
        colour = OUTCOME_COLOURS[reason.outcome]
        stdout.print(f"  [{colour}]·[/] {escape(reason.sentence)}", highlight=False)
    for text in result.notes:
        stdout.print(f"  [dim]· {escape(text)}[/]", highlight=False)
    table = Table("answers of", "name", "judged", "low", "rate", "95 %", "suspect")
    for rate in result.rates:
        if rate.kind is Kind.SERVICE or rate.judged:
            table.add_row(*_row(rate))
    stdout.print(table)
    if result.reasons:
        table = Table("reason", "gate", "outcome", "answers")
        for counted in result.reasons[:15]:
            colour = OUTCOME_COLOURS[counted.outcome]
            table.add_row(
                counted.code, counted.gate, f"[{colour}]{counted.outcome}[/]", f"{counted.rows:,}"
            )
        stdout.print(table)
    counts = result.counts
    left = ", ".join(f"{n:,} {cause.replace('_', ' ')}" for cause, n in by_cause(counts).items())
    stdout.print(
        f"{counts.entries:,} entries in {counts.objects:,} objects, {counts.sampled:,} answers sampled"
        + (f"; left out: {left}" if left else ""),
        highlight=False,
    )


def _row(rate: GroupRate) -> tuple[str, ...]:
    def percent(value: float) -> str:
        return f"{value:.1%}"

    share = percent(rate.rate.share) if rate.rate else "–"
    interval = f"{percent(rate.rate.low)}–{percent(rate.rate.high)}" if rate.rate else "–"
    return (
        rate.kind.value,
        escape(rate.name),
        f"{rate.judged:,}",
        f"{rate.low:,}",
        share,
        interval,
        f"{rate.suspect:,}",
    )


def _say_part(part: PartResult, out: Path, as_json: bool) -> None:
    whole = next((g.tally for g in part.groups if g.kind is Kind.SERVICE), None)
    told = {
        "service": part.service,
        "depth": part.depth,
        "partition": f"{part.index + 1}/{part.count}",
        "run_dir": out,
        "entries": part.counts.entries,
        "sampled": part.counts.sampled,
        "judged": whole.judged if whole else 0,
        "low": whole.low if whole else 0,
        "duration_s": part.duration_s,
    }
    if as_json:
        emit_json(told)
    else:
        stdout.print(
            f"partition {told['partition']}: {told['judged']:,} answers judged, {told['low']:,} of low "
            f"quality, {part.duration_s:.1f} s"
        )


def _say_partitions(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(told)
    elif not told["due"]:
        stdout.print("no window is due yet")
    else:
        number = len(told["partitions"])
        stdout.print(f"{told['start']} to {told['end']}: {number} partition{'s' * (number > 1)}")


def _part(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    match = _PART.fullmatch(text.strip())
    if match is None or int(match[1]) > int(match[2]):
        raise BadInput(f"'{text}' is no partition", field="--partition", fix="write it as 2/4")
    return int(match[1]) - 1, int(match[2])


def _asked_window(
    service: ServiceSettings, length: str | None, start: str | None, end: str | None
) -> Window | None:
    if (start is None) != (end is None):
        raise BadInput("--from and --to belong together")
    if start is not None and end is not None:
        if length is not None:
            raise BadInput("give either --window or --from and --to")
        first, last = _time(start, "--from"), _time(end, "--to")
        if not first < last:
            raise BadInput("--from must lie before --to", field="--from")
        return Window(first, last)
    return None if length is None else jobs.last_window(service, _duration(length), utc_now())


def _time(text: str, field: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(
            f"'{text}' is no time", field=field, fix="write ISO 8601, as 2026-03-01T10:00:00Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _duration(text: str) -> timedelta:
    match = _LENGTH.fullmatch(text.strip())
    if match is None:
        raise BadInput(
            f"'{text}' is no length of time", field="--window", fix="write 10m, 1h or 2d"
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _watermark(text: str | None) -> Watermark | None:
    if text is None:
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadInput(f"is no JSON: {error}", field="--watermark") from None
    return watermark_from(data)


def _note(text: str) -> None:
    stderr.print(f"· {text}", highlight=False, markup=False, soft_wrap=True)
