"""Reads golden cases from lines of JSON, and names everything that is wrong with them. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.golden.case import GoldenCase, Params
from quality_lib.golden.case_fields import FIELDS, PARAMS, case_flaws
from quality_lib.golden.check_spec import Flaw

COMMENT = "//"


def parse_cases(lines: Iterable[str], source: str) -> tuple[GoldenCase, ...]:
    """Read a golden set; blank lines and lines that start with ``//`` are skipped.

    Raises BadInput for the first thing that is wrong; `find_problems` lists them all.
    """
    cases, problems = _read(lines, source)
    if not problems:
        return cases
    first, further = problems[0], len(problems) - 1
    if not further:
        raise first
    raise BadInput(
        first.problem,
        file=first.file,
        line=first.line,
        field=first.field,
        fix=f"{first.fix or ''} ({further} more: 'quality golden validate {source}' lists them.)".strip(),
    )


def find_problems(lines: Iterable[str], source: str) -> list[BadInput]:
    """List everything that is wrong with a golden set, in the order of its lines."""
    return _read(lines, source)[1]


def read_case(document: Any, source: str, line: int | None = None) -> GoldenCase | list[BadInput]:
    """Turn one decoded JSON value into a case, or into the list of what is wrong with it."""
    problems = [_problem(flaw, source, line) for flaw in case_flaws(document)]
    return problems or _build(document, f"{source}:{line}" if line is not None else source)


def case_to_json(case: GoldenCase) -> dict[str, Any]:
    """Write a case as the object of its canonical line.

    Sampling parameters, repeats and ``critical`` are always spelled out, so a changed default is a
    changed set; what is empty is left out, so a field added later changes no digest.
    """
    params = {
        "temperature": float(case.params.temperature),
        "seed": case.params.seed,
        "max_tokens": case.params.max_tokens,
        "top_p": float(case.params.top_p),
    }
    document: dict[str, Any] = {
        "id": case.id,
        "messages": [dict(message) for message in case.messages],
        "params": {name: value for name, value in params.items() if value is not None},
        "repeats": case.repeats,
        "critical": case.critical,
    }
    optional = {
        "tools": [dict(tool) for tool in case.tools],
        "tool_choice": case.tool_choice,
        "response_format": case.response_format,
        "facts": list(case.facts),
        "checks": [dict(check) for check in case.checks],
        "tags": list(case.tags),
    }
    return document | {name: value for name, value in optional.items() if value}


def canonical_line(case: GoldenCase) -> str:
    """Write a case as the one line that stands for it, without a line end."""
    return json.dumps(case_to_json(case), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def golden_digest(cases: Iterable[GoldenCase]) -> str:
    """Return the SHA-256 of the sorted canonical lines; the order of the cases does not matter."""
    hashed = hashlib.sha256()
    for line in sorted(canonical_line(case) for case in cases):
        hashed.update(f"{line}\n".encode())
    return hashed.hexdigest()


def _read(lines: Iterable[str], source: str) -> tuple[tuple[GoldenCase, ...], list[BadInput]]:
    cases: list[GoldenCase] = []
    problems: list[BadInput] = []
    first_line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix("\ufeff").strip()
        if not text or text.startswith(COMMENT):
            continue
        document = _decode(text, source, number)
        if isinstance(document, BadInput):
            problems.append(document)
            continue
        name = document.get("id")
        if isinstance(name, str) and name in first_line_of:
            flaw = Flaw(
                "id",
                f"'{name}' is already the id of line {first_line_of[name]}",
                "give every case an id of its own.",
            )
            problems.append(_problem(flaw, source, number))
        elif isinstance(name, str):
            first_line_of[name] = number
        case = read_case(document, source, number)
        if isinstance(case, GoldenCase):
            cases.append(case)
        else:
            problems += case
    if not cases and not problems:
        problems.append(
            BadInput("holds no case", file=source, fix="write one JSON object per line.")
        )
    return tuple(cases), problems


def _decode(text: str, source: str, line: int) -> dict[str, Any] | BadInput:
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        return BadInput(
            f"no JSON: {error.msg} at column {error.colno}",
            file=source,
            line=line,
            fix="a case is one JSON object on one line.",
        )
    except UnicodeEncodeError:
        return BadInput(
            "holds half of a surrogate pair",
            file=source,
            line=line,
            fix="write the character itself instead of a lone \\ud800-\\udfff escape.",
        )
    except (ValueError, RecursionError) as error:
        return BadInput(
            f"no usable JSON: {error}", file=source, line=line, fix="write plain, flat JSON."
        )
    if not isinstance(document, dict):
        return BadInput(
            f"a {type(document).__name__} instead of an object",
            file=source,
            line=line,
            fix='a case is an object: {"id": ..., "messages": [...]}.',
        )
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name '{twice}' stands twice in one object")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _problem(flaw: Flaw, source: str, line: int | None) -> BadInput:
    return BadInput(flaw.problem, file=source, line=line, field=flaw.field, fix=flaw.fix)


def _build(document: Mapping[str, Any], source: str) -> GoldenCase:
    values = {name: document[name] for name in FIELDS if name in document}
    for name in ("messages", "tools", "facts", "checks", "tags"):
        if name in values:
            values[name] = tuple(values[name])
    params = {name: value for name, value in values.pop("params", {}).items() if name in PARAMS}
    for name in ("temperature", "top_p"):
        if name in params:
            params[name] = float(params[name])
    return GoldenCase(**values, params=Params(**params), source=source)
