"""The baseline as one JSON file; it travels with the snapshot."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from quality_lib.adapters.files.run_folder import keep_whole
from quality_lib.errors import BadInput
from quality_lib.golden.baseline import SCHEMA, Baseline

BASELINE = "baseline.json"


@cache
def _adapter() -> TypeAdapter[Baseline]:
    return TypeAdapter(Baseline)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file so that it is either whole or not there."""
    keep_whole(path, _adapter().dump_json(baseline))


def read_baseline(path: Path) -> Baseline:
    """Load a baseline file, or the one in a folder.

    Raises:
        BadInput: no such file, no baseline, or one of another schema.
    """
    if path.is_dir():
        path = path / BASELINE
    try:
        raw: Any = json.loads(path.read_bytes())
        if not isinstance(raw, dict) or "golden_digest" not in raw:
            raise BadInput(
                "holds no baseline", file=path, fix="make one with 'quality golden baseline'"
            )
        if raw.get("schema") != SCHEMA:
            raise BadInput(
                f"has baseline schema {raw.get('schema')}, this release reads {SCHEMA}",
                file=path,
                fix="build a new baseline with 'quality golden baseline'",
            )
        return _adapter().validate_python(raw)
    except FileNotFoundError:
        raise BadInput(
            "there is no such baseline", file=path, fix="make one with 'quality golden baseline'"
        ) from None
    except (OSError, ValueError, ValidationError) as error:
        raise BadInput(f"cannot be read as a baseline: {error}", file=path) from error
