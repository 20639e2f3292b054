"""The calibration as one JSON file beside the baseline; it travels with the snapshot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from quality_lib.adapters.files.run_folder import keep_whole
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.calibration_json import (
    FIX,
    FieldAtFault,
    calibration_of,
    calibration_to_json,
)
from quality_lib.errors import BadInput

CALIBRATION = "calibration.json"
_FIX = "calibrate again with 'quality golden calibrate'"


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the file so that it is either whole or not there."""
    keep_whole(path, calibration_to_json(calibration).encode())


def read_calibration(path: Path) -> tuple[Calibration, str]:
    """Return a calibration and its key, which differs between any two files.

    Raises:
        BadInput: it cannot be read; names the file and the field.
    """
    try:
        content = path.read_bytes()
        data = json.loads(content.decode())
    except OSError as error:
        raise BadInput(f"cannot be read: {error}", file=path, fix=_FIX) from error
    except ValueError as error:
        raise BadInput(f"is no valid JSON: {error}", file=path, fix=_FIX) from None
    if not isinstance(data, dict):
        raise BadInput("is no JSON object", file=path, fix=_FIX)
    try:
        calibration = calibration_of(data)
    except FieldAtFault as fault:
        raise BadInput(
            f"is no calibration: {fault.why!r}", file=path, field=fault.field, fix=FIX
        ) from None
    if not calibration.healthy or not calibration.blocks or not calibration.statistics:
        empty = next(n for n in ("healthy", "blocks", "statistics") if not getattr(calibration, n))
        raise BadInput("is empty", file=path, field=empty, fix=_FIX)
    return calibration, hashlib.sha256(content).hexdigest()[:16]
