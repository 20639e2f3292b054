"""``quality golden validate / convert / schema / list``: the golden set as a file."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from quality_lib.adapters.files import cases as case_files
from quality_lib.commands.output import AsJson, emit_json, stderr
from quality_lib.errors import EXIT_BAD_INPUT, BadInput
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.conversion import Converted
from quality_lib.golden.convert import from_inspect, from_openai_batch, from_promptfoo
from quality_lib.golden.parse import find_problems, golden_digest, parse_cases

Reference = Annotated[str, typer.Option("--cases", help="A .jsonl file or builtin:core.")]


class Form(StrEnum):
    """The foreign formats that can be converted."""

    OPENAI_BATCH = "openai-batch"
    PROMPTFOO = "promptfoo"
    INSPECT = "inspect"


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the ``golden`` group."""
    app.command("validate")(validate)
    app.command("convert")(convert)
    app.command("schema")(schema)
    app.command("list")(list_cases)


def validate(
    file: Annotated[str, typer.Argument(help="A .jsonl file or builtin:core.")],
    as_json: AsJson = False,
) -> None:
    """Check a golden set and name every bad line; exit code 2 if there is one."""
    lines = case_files.read_lines(case_files.case_path(file))
    problems = find_problems(lines, file)
    if problems:
        _tell_problems(problems, as_json)
        raise typer.Exit(EXIT_BAD_INPUT)
    cases = parse_cases(lines, file)
    axes = dict(sorted(Counter(case.axis or "(no axis)" for case in cases).items()))
    digest = golden_digest(cases)
    if as_json:
        emit_json({"ok": True, "cases": len(cases), "axes": axes, "digest": digest})
        return
    for axis, number in axes.items():
        typer.echo(f"{number:5d}  {axis}")
    typer.echo(f"{len(cases):5d}  cases\ndigest {digest}")


def _tell_problems(problems: list[BadInput], as_json: bool) -> None:
    if as_json:
        emit_json({"ok": False, "problems": [_as_record(problem) for problem in problems]})
        return
    for problem in problems:
        place = f"{problem.file}:{problem.line}: " if problem.line else f"{problem.file}: "
        field = f"{problem.field}: " if problem.field else ""
        fix = f"; {problem.fix}" if problem.fix else ""
        typer.echo(f"{place}{field}{problem.problem}{fix}")
    count = len(problems)
    stderr.print(f"{count} problem{'s' if count > 1 else ''}", highlight=False)


def _as_record(problem: BadInput) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "problem": problem.problem,
        "fix": problem.fix,
    }


def convert(
    file: Annotated[Path, typer.Argument(help="The file of the other tool.")],
    form: Annotated[Form, typer.Option("--from", help="Which tool's format it is in.")],
    out: Annotated[Path, typer.Option("--out", help="The golden set to write.")],
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn another tool's test file into a golden set; what is not carried over is listed."""
    cases, notes = _converted(file, form)
    for note in notes:
        stderr.print(f"{file}: {note}", highlight=False, markup=False, soft_wrap=True)
    if not cases:
        raise BadInput(
            "not one case could be made of it",
            file=file,
            fix=f"check that the file is in the format '{form}'; the notes say what was left out.",
        )
    case_files.write_cases(out, cases, overwrite=force)
    digest = golden_digest(cases)
    if as_json:
        emit_json({"cases": len(cases), "notes": notes, "out": out, "digest": digest})
    else:
        typer.echo(f"{len(cases)} cases, {len(notes)} notes: {out}\ndigest {digest}")


def _converted(file: Path, form: Form) -> Converted:
    match form:
        case Form.OPENAI_BATCH:
            return from_openai_batch(case_files.read_lines(file))
        case Form.PROMPTFOO:
            return from_promptfoo(case_files.read_document(file))
        case Form.INSPECT:
            return from_inspect(case_files.read_records(file))


def schema(as_json: AsJson = False) -> None:  # noqa: ARG001 - the schema is JSON either way
    """Print the JSON schema of one case."""
    emit_json(json.loads(case_files.schema_text()))


def list_cases(cases: Reference = "builtin:core", as_json: AsJson = False) -> None:
    """List the cases of a golden set."""
    rows = [_row(case) for case in case_files.load_cases(cases)]
    if as_json:
        emit_json({"cases": rows})
        return
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        sampling = f"T={row['temperature']:g}" if row["temperature"] else "greedy"
        critical = " critical" if row["critical"] else ""
        typer.echo(
            f"{row['id']:{width}}  {sampling:6}  {row['max_tokens']:4d}  {' '.join(row['tags'])}{critical}"
        )


def _row(case: GoldenCase) -> dict[str, Any]:
    return {
        "id": case.id,
        "axis": case.axis,
        "language": case.language,
        "temperature": case.params.temperature,
        "max_tokens": case.params.max_tokens,
        "critical": case.critical,
        "tags": list(case.tags),
    }
