"""``quality check FILE``: the gates of levels 1, 2 and 4 over exchanges."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from quality_lib.adapters.files.bounds import read_bounds
from quality_lib.adapters.logs.exchange_files import STDIN, read_exchanges
from quality_lib.commands.check_lines import CheckLines
from quality_lib.commands.output import progress_bar, stderr, stdout
from quality_lib.errors import EXIT_GOOD, BadInput, NoData
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Level
from quality_lib.jobs.check import LEVELS, CheckCounts, Checked, CheckGates, check, check_gates
from quality_lib.jobs.reference_reading import (
    REFERENCE_GATES,
    ReferenceGates,
    ReferenceReader,
    alike_of,
)
from quality_lib.records import Outcome, Verdict
from quality_lib.serving.server_tokenizer import ServerTokenizer
from quality_lib.settings import GateSettings, Settings, config_path, home, load

OFF = "off"
REFERENCE = "builtin:smollm2-135m"
REFERENCE_ROWS = 500
"""Answers that the reference model reads unless told otherwise: about a minute on two quiet cores."""
TOGETHER = 64
_SHOWN = (Outcome.FAILED, Outcome.SUSPECT, Outcome.UNJUDGED)
_COLOURS = {
    Outcome.FAILED: "bold red",
    Outcome.SUSPECT: "yellow",
    Outcome.UNJUDGED: "magenta",
    Outcome.PASSED: "green",
}
_TOLD_BAD_LINES = 20


def check_command(
    file: Annotated[
        str,
        typer.Argument(
            help="Exchanges: .jsonl, .jsonl.gz, a JSON array, Parquet, or - for standard input."
        ),
    ],
    service: Annotated[
        str | None, typer.Option(help="Use this service's limits and bounds.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    level: Annotated[
        list[int] | None, typer.Option(min=1, max=4, help="Only gates of this level; repeatable.")
    ] = None,
    gate: Annotated[
        list[str] | None, typer.Option(help="Only the gate of this name; repeatable.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Count prompt tokens with the tokenizer of this model folder."),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="Language model that reads the answers, for nonsense that no rule can tell: a folder, "
            "a .gguf file or the packaged one; 'off' is many times faster."
        ),
    ] = REFERENCE,
    reference_rows: Annotated[
        int, typer.Option(min=0, help="It reads so many answers at most; 0: all.")
    ] = REFERENCE_ROWS,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many bad records the table shows.")] = 20,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one verdict object a line on stdout, in the order of the file."
        ),
    ] = False,
) -> None:
    """Judge every exchange of a file; of a record without an answer, its request.

    Exit codes: 0 nothing failed (suspect records count as good), 1 some failed, 2 bad input or a line
    that could not be read (the others are judged all the same), 4 nothing to judge.
    """
    settings = _settings(service, config)
    gates = _gates(settings, service, level, gate, tokenizer)
    reader = None
    if _asks_reference(reference, level, gate):
        reader = _reader(
            settings,
            service,
            gate or REFERENCE_GATES,
            reference,
            reference_rows,
            together=1 if file == STDIN else None,
        )
    counts = CheckCounts()
    worst: dict[Outcome, list[Checked]] = {outcome: [] for outcome in _SHOWN}
    out, lines = typer.get_binary_stream("stdout"), CheckLines()
    with progress_bar(quiet=not stderr.is_terminal) as progress:
        task = progress.add_task("judging", total=limit)
        for checked in check(read_exchanges(file), gates, reader):
            counts.add(checked)
            if checked.bad_line is not None:
                _tell_bad_line(checked, counts.bad_lines)
            if as_json:
                out.write(lines.line(checked))
                if file == STDIN:
                    out.flush()  # somebody may be waiting for each answer
            elif checked.outcome in worst and len(worst[checked.outcome]) < top:
                worst[checked.outcome].append(checked)
            if counts.records % 100 == 0:
                progress.update(task, completed=counts.records)
            if limit is not None and counts.records >= limit:
                break
        progress.update(task, completed=counts.records)
    out.flush()
    if reader is not None and reader.left_out:
        stderr.print(
            f"the reference model read the first {reader.read:,} answers that nothing else failed; "
            f"{reader.left_out:,} more were not read (--reference-rows 0 reads all)",
            highlight=False,
        )
    _finish(file, counts, worst, top, as_json=as_json)


def _finish(
    file: str,
    counts: CheckCounts,
    worst: dict[Outcome, list[Checked]],
    top: int,
    *,
    as_json: bool,
) -> None:
    if not counts.records:
        raise NoData(f"{'standard input' if file == STDIN else file}: holds no records")
    if not as_json:
        _print([row for outcome in _SHOWN for row in worst[outcome]][:top], counts)
    if counts.bad_lines > _TOLD_BAD_LINES:
        stderr.print(f"… and {counts.bad_lines - _TOLD_BAD_LINES} more lines", highlight=False)
    if counts.exit_code != EXIT_GOOD:
        raise typer.Exit(counts.exit_code)


def _settings(service: str | None, config: Path | None) -> Settings | None:
    if service is None:
        if config is not None:
            raise BadInput("--config needs --service", fix="name the service whose limits apply")
        return None
    return load(config_path(config))


def _gates(
    settings: Settings | None,
    service: str | None,
    levels: list[int] | None,
    names: list[str] | None,
    tokenizer: Path | None,
) -> CheckGates:
    if 3 in (levels or ()):
        raise BadInput(
            "level 3 is judged while an answer is generated, inside the server",
            fix="use --level 1, 2 or 4",
        )
    chosen = settings.service(service).gates if settings and service else GateSettings()
    known = check_gates(chosen)
    _check_names(names or [], known)
    similarity = None
    if settings is not None and chosen.input.scope_examples:
        from quality_lib.adapters.model.cached_similarity import CachedSimilarity

        similarity = CachedSimilarity(settings.embedding_model)
    tokens = ServerTokenizer()
    if tokenizer is not None:
        from quality_lib.adapters.model.folder_tokenizer import folder_tokenizer

        tokens = folder_tokenizer(tokenizer)
    return check_gates(
        chosen,
        bounds=read_bounds(chosen.bounds) if chosen.bounds else None,
        count_tokens=tokens.count,
        facts=tokens.facts,
        levels=[Level(n) for n in levels] if levels else LEVELS,
        names=names or (),
        similarity=similarity,
    )


def _asks_reference(reference: str, levels: list[int] | None, names: list[str] | None) -> bool:
    return (
        reference != OFF
        and (not levels or int(Level.OUTPUT) in levels)
        and (not names or not set(names).isdisjoint(REFERENCE_GATES))
    )


def _reader(
    settings: Settings | None,
    service: str | None,
    names: Collection[str],
    reference: str,
    rows: int,
    together: int | None,
) -> ReferenceReader | None:
    """Return what reads answers with the reference model; None when the service switches its gates off."""
    gates = settings.service(service).gates if settings and service else GateSettings()
    wanted = [name for name in REFERENCE_GATES if name in names and name not in gates.disabled]
    if not wanted:
        return None
    from quality_lib.adapters.model.embeddings import BUILTIN
    from quality_lib.adapters.model.reference_model import ReferenceModel

    bounds = read_bounds(gates.bounds) if gates.bounds else LearnedBounds()

    def say(text: str) -> None:
        stderr.print(escape(text), highlight=False)

    def give_up(problem: str) -> None:
        say(f"no answer was read by a reference model: {problem}")

    alike = None
    if "relevance" in wanted:
        alike = alike_of(settings.embedding_model if settings else BUILTIN)
    return ReferenceReader(
        ReferenceModel(reference, home() / "models", say=say),
        ReferenceGates(gates.output, bounds, alike, wanted),
        most=rows or None,
        together=together or TOGETHER,
        # Asked for by name it must be there; by default it is a help.
        give_up=give_up if reference == REFERENCE else None,
    )


def _check_names(names: list[str], gates: CheckGates) -> None:
    known = sorted([*REFERENCE_GATES, *(gate.name for gate in (*gates.request, *gates.answer))])
    for name in names:
        if name not in known and name != "input_scope":
            raise BadInput(f"there is no gate '{name}'", fix=f"use one of: {', '.join(known)}")


def _tell_bad_line(checked: Checked, count: int) -> None:
    if checked.bad_line is not None and count <= _TOLD_BAD_LINES:
        text = escape(str(checked.bad_line.error))
        stderr.print(f"[bold red]bad line:[/] {text}", highlight=False, soft_wrap=True)


def _print(rows: list[Checked], counts: CheckCounts) -> None:
    if rows:
        table = Table(Column("id", overflow="fold"), "verdict", "reason", "what")
        for row in rows:
            bad = _speaker(row)
            colour = _COLOURS[row.outcome]
            table.add_row(
                escape(row.id),
                f"[{colour}]{row.outcome}[/]",
                escape("\n".join(row.reasons) or bad.reason),
                escape(bad.sentence),
            )
        stdout.print(table)
    if counts.by_reason:
        summary = Table("reason", "outcome", Column("records", justify="right"))
        for (outcome, reason), number in sorted(counts.by_reason.items(), key=lambda kv: -kv[1]):
            summary.add_row(reason, outcome, f"{number:,}")
        stdout.print(summary)
    told = [
        f"[{_COLOURS[outcome]}]{number:,} {outcome}[/]"
        for outcome, number in counts.by_outcome.items()
        if number
    ]
    stdout.print(f"{counts.records:,} records: " + ", ".join(told), highlight=False)


def _speaker(row: Checked) -> Verdict:
    """Return the verdict that speaks for the row: the first with the row's outcome."""
    said = [gate.verdict for gate in row.judgement.gates]
    nobody = Verdict(row.outcome, "", "No gate was asked.")
    return next((verdict for verdict in said if verdict.outcome is row.outcome), nobody)
