"""Whether a guarded server's exchange log has left its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from quality_lib.errors import OutsideFailure


def await_shipped(
    folder: Path, timeout_s: float, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Return when everything that was recorded before this call is in S3, whatever comes meanwhile."""
    waited = 0.0
    left = [file for file in folder.glob("*.jsonl*") if _has_records(file)]
    while left := [file for file in left if _has_records(file)]:
        if waited >= timeout_s:
            raise OutsideFailure(f"{left[0]} was not shipped within {timeout_s:.0f} s")
        sleep(0.5)
        waited += 0.5


def _has_records(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False
