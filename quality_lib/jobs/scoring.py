"""Level-4 scoring of a production log: plan a window, score its partitions, merge, publish."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from quality_lib.adapters.files.bounds import read_bounds
from quality_lib.adapters.logs.reader import list_window, read_window
from quality_lib.adapters.logs.score_files import (
    PLAN,
    REPORT,
    SCORE,
    has_score,
    read_part,
    read_parts,
    read_plan,
    read_score,
    row_files,
    rows_name,
    write_part,
    write_plan,
    write_score,
)
from quality_lib.adapters.logs.scored_rows import RowWriter, keep_rows
from quality_lib.adapters.logs.store import log_store
from quality_lib.adapters.model.cached_similarity import CachedSimilarity
from quality_lib.adapters.model.folder_tokenizer import folder_tokenizer
from quality_lib.errors import BadInput, DigestMismatch, OutsideFailure
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.masking import mask_text
from quality_lib.exchanges.row import Facts
from quality_lib.exchanges.sampling import Sampled, SampleResult
from quality_lib.exchanges.watermark import Watermark, advanced, watermark_from
from quality_lib.exchanges.window import (
    Partition,
    Window,
    next_window,
    partition_from,
    partitions,
)
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, judge
from quality_lib.golden.ports import Progress
from quality_lib.jobs import deep_scoring
from quality_lib.jobs.check import CheckGates, check_gates
from quality_lib.jobs.clock import Clock, Note, silent, utc_now
from quality_lib.scoring.logged import judged_as_logged
from quality_lib.scoring.merge import merge
from quality_lib.scoring.result import SCHEMA, Depth, PartResult, ScorePoint, ScoreResult
from quality_lib.scoring.tally import Kind, Score, Tallies, score_of
from quality_lib.scoring.worst import Worst, shown_row
from quality_lib.serving.server_tokenizer import ServerTokenizer
from quality_lib.settings import LogSettings, ServiceSettings, Settings

Read = Callable[[ServiceSettings, LogSettings, str, Partition, Watermark | None], SampleResult]


def _no_progress(stage: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Plan:
    """What is scored in a folder: one window of one service, at one depth."""

    service: str
    depth: Depth
    parts: tuple[Partition, ...]
    watermark: Watermark | None

    @property
    def window(self) -> Window:
        """Return the window."""
        return self.parts[0].window

    @property
    def skipped(self) -> timedelta:
        """Return the stretch between the last window and this one, left out after a long pause."""
        if self.watermark is None:
            return timedelta(0)
        return max(timedelta(0), self.window.start - self.watermark.complete_to)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "service": self.service,
            "depth": self.depth.value,
            "parts": [part.as_dict() for part in self.parts],
            "watermark": self.watermark.as_dict() if self.watermark else None,
        }


def stored_plan(folder: Path) -> Plan | None:
    """Return the plan of a folder; None when it has none yet."""
    data = read_plan(folder)
    if data is None:
        return None
    try:
        parts = tuple(partition_from(part) for part in data["parts"])
        return Plan(
            str(data["service"]), Depth(data["depth"]), parts, watermark_from(data["watermark"])
        )
    except (KeyError, TypeError, ValueError, BadInput) as error:
        raise BadInput(f"is no plan: {error}", file=folder / PLAN) from error


def due_window(
    service: ServiceSettings, depth: Depth, watermark: Watermark | None, now: datetime
) -> Window | None:
    """Return the window that a pass should score now; None when the last one is too young."""
    length = _length(service, depth)
    if length is None:
        return None
    return next_window(
        watermark.complete_to if watermark else None,
        now,
        length=length,
        settle=timedelta(seconds=service.logs.reading.settle_seconds),
        longest=length * service.scoring.longest_windows,
    )


def last_window(service: ServiceSettings, length: timedelta, now: datetime) -> Window:
    """Return the newest stretch of the log that has settled."""
    end = now.replace(microsecond=0) - timedelta(seconds=service.logs.reading.settle_seconds)
    return Window(end - length, end)


def plan_window(
    settings: Settings,
    service_name: str,
    window: Window,
    depth: Depth,
    folder: Path,
    *,
    count: int | None = None,
    watermark: Watermark | None = None,
) -> Plan:
    """Divide a window into partitions and keep the plan; a folder that has one keeps it.

    Raises:
        DigestMismatch: the folder holds another service or depth.
        OutsideFailure: the log cannot be listed.
    """
    known = stored_plan(folder)
    if known is not None:
        _refuse_another(folder, known, service_name, depth)
        return known
    service = settings.service(service_name)
    source = _source(service, depth)
    listing = list_window(
        log_store(service), source, window, service=service_name, watermark=watermark
    )
    parts = partitions(window, listing, count or service.scoring.partitions, source.sample)
    plan = Plan(service_name, depth, parts, watermark)
    write_plan(folder, plan.as_dict())
    return plan


def score_partition(
    settings: Settings,
    folder: Path,
    index: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress = _no_progress,
    note: Note = silent,
    read: Read | None = None,
) -> PartResult:
    """Score one partition of the folder's plan; a scored one is returned as it is.

    Raises:
        OutsideFailure: the log, the reference or the disk failed; nothing half-done is kept.
    """
    plan = _plan_of(folder)
    if not 0 <= index < len(plan.parts):
        raise BadInput(f"there is no partition {index + 1} of {len(plan.parts)}", file=folder)
    part = plan.parts[index]
    done = read_part(folder, index, part.count)
    if done is not None:
        return done
    started = clock()
    service = settings.service(plan.service)
    note(f"reading partition {index + 1} of {part.count}")
    sample = (read or _reader(progress))(
        service, _source(service, plan.depth), plan.service, part, plan.watermark
    )
    bounds = read_bounds(service.gates.bounds) if service.gates.bounds else LearnedBounds()
    gates, notes = _gates(settings, service, bounds, plan.depth)
    deep = deep_scoring.Deep(sample.rows)
    if plan.depth is Depth.DEEP:
        deep = deep_scoring.ask_models(
            settings, service, sample.rows, bounds, part.count, progress=progress, note=note
        )
    if part.index == 0 and plan.skipped:
        counts = dataclasses.replace(sample.counts, skipped_s=plan.skipped.total_seconds())
        sample = dataclasses.replace(sample, counts=counts)
        notes = (*notes, f"What arrived in the {plan.skipped} before this window was never scored.")
    deep = dataclasses.replace(deep, notes=(*notes, *deep.notes))
    result = _judged(
        folder, plan, part, sample, (*gates.request, *gates.answer), deep, progress, note
    )
    result = dataclasses.replace(result, duration_s=round(clock() - started, 2))
    write_part(folder, result)
    return result


def _judged(
    folder: Path,
    plan: Plan,
    part: Partition,
    sample: SampleResult,
    gates: tuple[Gate, ...],
    deep: deep_scoring.Deep,
    progress: Progress,
    note: Note,
) -> PartResult:
    note(f"judging {len(sample.rows):,} answers")
    tallies, worst = Tallies(), Worst()
    writer = RowWriter(folder / rows_name(part.index, part.count))
    pairs = enumerate(zip(sample.rows, deep.exchanges, strict=True))
    # The choices of a request follow each other, and are one observation together.
    for _, choices in groupby(pairs, key=lambda pair: pair[1][0].request):
        scores: list[Score] = []
        weight, names = 0.0, dict[Kind, str]()
        for number, (sampled, exchange) in choices:
            facts = sampled.row.facts
            said = judged_as_logged(judge(exchange, gates), facts, deep.verdicts_of(number))
            score = score_of(said)
            scores.append(score)
            weight += sampled.weight
            names = names or _names(exchange, facts, sampled)
            place = f"{sampled.row.key}:{sampled.row.line}"
            shown = shown_row(exchange, facts, score, sampled.stratum, place, _mask)
            writer.add(shown, sampled.weight)
            if worst.wants(score):
                worst.add(shown)
            if number % 100 == 0:
                progress("gates", number, len(sample.rows))
        tallies.add(scores, weight, names)
    writer.close()
    return PartResult(
        schema=SCHEMA,
        service=plan.service,
        depth=plan.depth,
        start=part.window.start.isoformat(),
        end=part.window.end.isoformat(),
        index=part.index,
        count=part.count,
        counts=sample.counts,
        groups=tallies.groups,
        reasons=tallies.reasons,
        worst=worst.rows,
        replay=deep.replay,
        notes=deep.notes,
        seen=sample.seen,
        duration_s=0.0,
    )


def merge_window(
    settings: Settings,
    folder: Path,
    *,
    clock: Clock = utc_now,
    note: Note = silent,
) -> ScoreResult:
    """Put the partitions of the folder's plan together, judge the window, write score and report.

    Doing it again returns what is there.

    Raises:
        OutsideFailure: a partition is missing: its task has failed, and nothing is known of the window.
    """
    plan = _plan_of(folder)
    if has_score(folder):
        result = read_score(folder)
    else:
        parts = read_parts(folder)
        missing = sorted({p.index for p in plan.parts} - {p.index for p in parts})
        if missing:
            raise OutsideFailure(
                f"partition {missing[0] + 1} of {len(plan.parts)} was not scored: the checker failed, "
                "nothing is known of the answers"
            )
        service = settings.service(plan.service)
        result = merge(
            parts,
            clock().isoformat(timespec="seconds"),
            service.scoring.limits,
            service.logs.reading,
            service.scoring.replay,
        )
        write_score(folder, result)
    if not (folder / REPORT).exists():
        note("writing the report")
        write_report(settings, folder, result, note)
    return result


def next_watermark(settings: Settings, folder: Path, result: ScoreResult) -> Watermark | None:
    """Return what to remember after this window; None to read it again together with the next one.

    A window without a verdict is read again until it has its greatest length: a quiet service
    gathers rows, and an object that came late is not lost.
    """
    plan = _plan_of(folder)
    service = settings.service(plan.service)
    length = _length(service, plan.depth)
    longest = length * service.scoring.longest_windows if length else timedelta(0)
    is_last = plan.window.end - plan.window.start >= longest
    if not (result.verdict.is_good or result.verdict.is_bad or is_last):
        return None
    lookback = timedelta(minutes=service.logs.reading.lookback_minutes)
    return advanced(plan.watermark, plan.parts[0], result.seen, lookback)


def is_thin(result: ScoreResult) -> bool:
    """Whether nothing but the number of answers stood in the way of a verdict."""
    return bool({v.reason for v in result.verdict.reasons} & {"no_data", "too_few_rows"})


def write_report(
    settings: Settings, folder: Path, result: ScoreResult, note: Note = silent
) -> Path:
    """Write the HTML report; a silent MLflow costs the trend, not the report."""
    from quality_lib.adapters.mlflow.scores import MlflowScores
    from quality_lib.adapters.pages.scores_report import render_scores

    history: tuple[ScorePoint, ...] = ()
    try:
        history = MlflowScores(settings.stores.mlflow).history(result.service, result.depth)
    except OutsideFailure as error:
        note(f"the report has no trend: {error}")
    limits = settings.service(result.service).scoring.limits
    path = folder / REPORT
    try:
        path.write_text(render_scores(result, history, limits), encoding="utf-8")
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error
    return path


def publish(settings: Settings, folder: Path) -> Mapping[str, Any]:
    """Store a merged score in MLflow and its rows in ``results_uri``; doing it twice stores it once.

    Raises:
        OutsideFailure: a store does not answer; the folder stays as it is.
    """
    from quality_lib.adapters.mlflow.scores import MlflowScores

    result = read_score(folder)
    rows = row_files(folder)
    uri = settings.service(result.service).scoring.results_uri
    kept = ""
    if uri:
        kept = keep_rows(rows, uri, (result.service, result.depth.value, result.score_id))
    files = {name: folder / name for name in (SCORE, REPORT) if (folder / name).exists()}
    published = MlflowScores(settings.stores.mlflow).publish(result, files, rows_uri=kept)
    return {
        "score_id": result.score_id,
        "mlflow_run_id": published.mlflow_run_id,
        "run_url": published.run_url,
        "report_url": published.report_url,
        "rows": kept,
    }


def _plan_of(folder: Path) -> Plan:
    plan = stored_plan(folder)
    if plan is None:
        raise BadInput(
            "holds no plan of a window",
            file=folder,
            fix="run 'quality logs partitions' or 'quality logs score' with this --out first",
        )
    return plan


def _refuse_another(folder: Path, known: Plan, service_name: str, depth: Depth) -> None:
    if (known.service, known.depth) != (service_name, depth):
        raise DigestMismatch(
            f"holds a {known.depth.value} pass of '{known.service}'",
            file=folder,
            fix="choose another --out, or remove that folder",
        )


def _length(service: ServiceSettings, depth: Depth) -> timedelta | None:
    scoring = service.scoring
    minutes = scoring.every_minutes if depth is Depth.QUICK else scoring.deep_every_minutes
    return timedelta(minutes=minutes) if minutes else None


def _source(service: ServiceSettings, depth: Depth) -> LogSettings:
    """Return how the log is read: a deep pass takes fewer rows."""
    source = service.logs
    if depth is Depth.QUICK:
        return source
    rows = min(source.sample.max_rows, service.scoring.deep_rows)
    least = min(source.sample.min_per_stratum, max(1, rows // 20))
    sample = dataclasses.replace(source.sample, max_rows=rows, min_per_stratum=least)
    return source.model_copy(update={"sample": sample})


def _reader(progress: Progress) -> Read:
    def read(
        service: ServiceSettings,
        source: LogSettings,
        name: str,
        part: Partition,
        watermark: Watermark | None,
    ) -> SampleResult:
        return read_window(
            log_store(service),
            source,
            part,
            service=name,
            watermark=watermark,
            progress=lambda done, of: progress("objects", done, of),
        )

    return read


def _gates(
    settings: Settings, service: ServiceSettings, bounds: LearnedBounds, depth: Depth
) -> tuple[CheckGates, tuple[str, ...]]:
    """Return the gates without a reference, and what they cannot do for want of a tokenizer or model."""
    notes, similarity = [], None
    tokens = ServerTokenizer()
    try:
        tokens = folder_tokenizer(service.weights)
    except BadInput as bad:
        # Counting again is one check of many: for want of it the window is judged all the same.
        notes.append(f"Prompt tokens were not counted again: the folder 'weights' {bad.problem}.")
    if service.gates.input.scope_examples:
        if depth is Depth.DEEP:
            similarity = CachedSimilarity(settings.embedding_model)
        else:
            notes.append("Prompts were not held against scope_examples; the deep pass does that.")
    gates = check_gates(
        service.gates,
        bounds=bounds,
        count_tokens=tokens.count,
        facts=tokens.facts,
        similarity=similarity,
    )
    return gates, tuple(notes)


def _names(exchange: Exchange, facts: Facts, sampled: Sampled) -> dict[Kind, str]:
    return {
        Kind.MODEL: facts.model_served or facts.model,
        Kind.INSTANCE: facts.backend or exchange.endpoint,
        Kind.SNAPSHOT: exchange.snapshot_id[:12],
        Kind.STRATUM: sampled.stratum,
    }


def _mask(text: str) -> str:
    return mask_text(text).text
