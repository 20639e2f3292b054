"""The result of a golden check as one JSON file in its run folder."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from quality_lib.adapters.files.run_folder import write_whole
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.golden.result import SCHEMA, GoldenResult

RESULT = "result.json"


class _File(BaseModel):
    """The file's content. Infinite log-probability differences survive the round trip as texts."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    result: GoldenResult


def write_result(folder: Path, result: GoldenResult) -> Path:
    """Write ``result.json`` so that it is either whole or not there."""
    path = folder / RESULT
    try:
        write_whole(path, _File(result=result).model_dump_json().encode())
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error
    return path


def read_result(folder: Path) -> GoldenResult:
    """Load the result of a golden check.

    Raises:
        BadInput: the folder holds none, or one of another schema.
    """
    path = folder / RESULT
    try:
        raw = json.loads(path.read_bytes())
        if not isinstance(raw, dict) or raw.get("result", {}).get("schema") != SCHEMA:
            raise BadInput(
                "is no result that this release reads",
                file=path,
                fix="run 'quality golden check' again",
            )
        return _File.model_validate(raw).result
    except FileNotFoundError:
        raise BadInput(
            "holds no result of a golden check",
            file=folder,
            fix="pass a folder written by 'quality golden check'",
        ) from None
    except (OSError, ValueError, ValidationError) as error:
        raise BadInput(f"cannot be read: {error}", file=path) from error
