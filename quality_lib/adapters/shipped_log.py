"""Whether a guarded server's exchange log has left its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from quality_lib.errors import OutsideFailure


def await_shipped(
    folder: Path, timeout_s: float, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Return when nothing that was recorded lies in the folder any more: all of it is in S3."""
    waited = 0.0
    while left := [f.name for f in folder.glob("*.jsonl*") if f.stat().st_size]:
        if waited >= timeout_s:
            raise OutsideFailure(f"{folder / left[0]} was not shipped within {timeout_s:.0f} s")
        sleep(0.5)
        waited += 0.5
