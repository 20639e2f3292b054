"""Scores on disk: the plan of a window, one file a scored partition, and the merged score.

A folder holds one window: ``plan.json``, ``part-K-of-N.json`` with its judged rows as
``rows-K-of-N.parquet``, and, when all are there, ``score.json`` and ``report.html``. Every file is
either whole or not there, so whatever was killed goes on where it stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from quality_lib.adapters.files.run_folder import write_json, write_whole
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.scoring.result import SCHEMA, PartResult, ScoreResult

PLAN, SCORE, REPORT = "plan.json", "score.json", "report.html"

_T = TypeVar("_T", PartResult, ScoreResult)


class _Part(BaseModel):
    """A partition's file. Infinite numbers survive the round trip as texts."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    result: PartResult


class _Score(BaseModel):
    """The merged score's file."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    result: ScoreResult


def part_name(index: int, count: int) -> str:
    """Return the file of one partition; ``index`` is 0-based, names count from 1."""
    return f"part-{index + 1}-of-{count}.json"


def rows_name(index: int, count: int) -> str:
    """Return the file of one partition's judged rows."""
    return f"rows-{index + 1}-of-{count}.parquet"


def write_plan(folder: Path, plan: Any) -> None:
    """Write what is to be scored in this folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / PLAN, plan)
    except OSError as error:
        raise OutsideFailure(f"{folder} cannot be written: {error}") from error


def read_plan(folder: Path) -> Any | None:
    """Return the plan of this folder; None when it has none yet."""
    path = folder / PLAN
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot be read: {error}", file=path) from error


def write_part(folder: Path, result: PartResult) -> Path:
    """Write one scored partition."""
    return _write(
        folder / part_name(result.index, result.count), _Part(result=result).model_dump_json()
    )


def read_part(folder: Path, index: int, count: int) -> PartResult | None:
    """Return a scored partition; None when it is not there."""
    path = folder / part_name(index, count)
    return _read(path, _Part) if path.exists() else None


def read_parts(folder: Path) -> list[PartResult]:
    """Return every scored partition of a folder, in any order."""
    return [_read(path, _Part) for path in sorted(folder.glob("part-*-of-*.json"))]


def write_score(folder: Path, result: ScoreResult) -> Path:
    """Write the merged score."""
    return _write(folder / SCORE, _Score(result=result).model_dump_json())


def read_score(folder: Path) -> ScoreResult:
    """Load a merged score.

    Raises:
        BadInput: the folder holds none, or one of another schema.
    """
    path = folder / SCORE
    if not path.exists():
        raise BadInput(
            "holds no score",
            file=folder,
            fix="pass a folder that 'quality logs merge' has finished",
        )
    return _read(path, _Score)


def has_score(folder: Path) -> bool:
    """Whether the merged score is there."""
    return (folder / SCORE).exists()


def row_files(folder: Path) -> list[Path]:
    """Return the files of judged rows."""
    return sorted(folder.glob("rows-*-of-*.parquet"))


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error
    return path


def _read(path: Path, kind: Any) -> Any:
    try:
        raw = json.loads(path.read_bytes())
        if not isinstance(raw, dict) or raw.get("result", {}).get("schema") != SCHEMA:
            raise BadInput(
                "is no score that this release reads", file=path, fix="score the window again"
            )
        return kind.model_validate(raw).result
    except (OSError, ValueError, ValidationError) as error:
        raise BadInput(f"cannot be read: {error}", file=path) from error
