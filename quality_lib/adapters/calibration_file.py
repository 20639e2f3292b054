"""The calibration as one JSON file beside the baseline; it travels with the snapshot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from quality_lib.adapters.run_folder import write_whole
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.calibration_json import SCHEMA, calibration_from_json, calibration_to_json
from quality_lib.errors import BadInput, OutsideFailure

CALIBRATION = "calibration.json"
_FIX = "calibrate again with 'quality golden calibrate'"
_LEAST: dict[str, Any] = {
    "schema": SCHEMA,
    "reference_id": "",
    "platform": "",
    "checks": 0,
    "blocks": [],
    "is_deterministic": False,
    "healthy": [],
    "statistics": {},
    "recheck_correlation": None,
    "bursts": [],
    "risk": 0.5,
}
"""A calibration that says nothing and can be read."""


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file so that it is either whole or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, calibration_to_json(calibration).encode())
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error


def read_calibration(path: Path) -> tuple[Calibration, str]:
    """Return a calibration and its key, which differs between any two files.

    Raises:
        BadInput: it cannot be read; names the file and the field.
    """
    try:
        content = path.read_bytes()
        text = content.decode()
        data = json.loads(text)
    except OSError as error:
        raise BadInput(f"cannot be read: {error}", file=path, fix=_FIX) from error
    except ValueError as error:
        raise BadInput(f"is no valid JSON: {error}", file=path, fix=_FIX) from None
    if not isinstance(data, dict):
        raise BadInput("is no JSON object", file=path, fix=_FIX)
    try:
        calibration = calibration_from_json(text, str(path))
    except BadInput as problem:
        raise BadInput(
            problem.problem, file=path, field=_field_at_fault(data), fix=problem.fix
        ) from None
    if not calibration.healthy or not calibration.blocks or not calibration.statistics:
        empty = next(n for n in ("healthy", "blocks", "statistics") if not getattr(calibration, n))
        raise BadInput("is empty", file=path, field=empty, fix=_FIX)
    return calibration, hashlib.sha256(content).hexdigest()[:16]


def _field_at_fault(data: dict[str, Any]) -> str | None:
    """Return the first field that a calibration lacks or that alone makes one unreadable."""
    for name in _LEAST:
        if name not in data:
            return name
        # The numbers of statistics point into the blocks, which come before them.
        probe = {**_LEAST, name: data[name]}
        if name == "statistics":
            probe["blocks"] = data["blocks"]
        try:
            calibration_from_json(json.dumps(probe))
        except BadInput:
            return name
    return None
