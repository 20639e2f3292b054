"""Golden sets on disk: a path, or ``builtin:NAME`` for a set that comes with the package."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.parse import case_to_json, parse_cases

BUILTIN = "builtin:"
SCHEMA = "case.schema.json"


def builtin_path(name: str) -> Path:
    """Return the file of a set that comes with the package, such as ``core``."""
    known = sorted(path.stem for path in _data().glob("*.jsonl"))
    if name not in known:
        raise BadInput(
            f"there is no built-in golden set '{name}'",
            fix=f"use one of: {', '.join(BUILTIN + n for n in known)}, or the path of a file.",
        )
    return _data() / f"{name}.jsonl"


def case_path(reference: str) -> Path:
    """Return the file that a reference stands for."""
    if reference.startswith(BUILTIN):
        return builtin_path(reference.removeprefix(BUILTIN))
    return Path(reference)


def load_cases(reference: str) -> tuple[GoldenCase, ...]:
    """Read the golden set that a path or ``builtin:core`` stands for."""
    return parse_cases(read_lines(case_path(reference)), reference)


def read_lines(path: Path) -> list[str]:
    """Read a UTF-8 text file as lines; a line ends with a line feed and nothing else."""
    return _read_text(path, "a golden set").split("\n")


def read_document(path: Path) -> dict[str, Any]:
    """Read one YAML or JSON object."""
    try:
        document = yaml.safe_load(_read_text(path, "the file"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise BadInput(
            f"is neither YAML nor JSON: {getattr(error, 'problem', None) or error}",
            file=path,
            line=mark.line + 1 if mark else None,
            fix="check the indentation and the quotes there.",
        ) from error
    if not isinstance(document, dict):
        raise BadInput("holds no object", file=path, fix="give the whole configuration file.")
    return document


def read_records(path: Path) -> list[Any]:
    """Read a JSON list, or one JSON value per line."""
    text = _read_text(path, "the file")
    if text.lstrip().startswith("["):
        return list(_decode(text, path, 1))
    numbered = enumerate(text.split("\n"), start=1)
    return [_decode(line, path, number) for number, line in numbered if line.strip()]


def write_cases(path: Path, cases: Iterable[GoldenCase], *, overwrite: bool = False) -> None:
    """Write a golden set, whole or not at all; an existing file is kept unless told otherwise."""
    if path.exists() and not overwrite:
        raise BadInput("already exists", file=path, fix="choose another name or add --force.")
    lines = [json.dumps(case_to_json(case), ensure_ascii=False) + "\n" for case in cases]
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text("".join(lines), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise OutsideFailure(f"{path}: cannot be written: {error.strerror or error}") from error


def schema_text() -> str:
    """Return the JSON schema of one case."""
    return (_data() / SCHEMA).read_text(encoding="utf-8")


def _data() -> Path:
    # A wheel is always installed unpacked, so the resource is a real path.
    return Path(str(resources.files("quality_lib.golden"))) / "data"


def _decode(text: str, path: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # Of a list over many lines the decoder knows the line better than we do.
        number = line + error.lineno - 1 if isinstance(error, json.JSONDecodeError) else line
        raise BadInput(f"no JSON: {error}", file=path, line=number) from error


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise BadInput(
            "does not exist", file=path, fix=f"give the path of {what}, or {BUILTIN}core."
        ) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadInput(
            "is not UTF-8", file=path, line=line, fix="save it with the encoding UTF-8."
        ) from error
    except OSError as error:
        raise BadInput(
            f"cannot be read: {error.strerror or error}", file=path, fix="check path and rights."
        ) from error
