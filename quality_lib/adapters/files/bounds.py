"""Learned bounds as ``bounds.json`` beside the baseline; it travels with the snapshot."""

from __future__ import annotations

import json
from pathlib import Path

from quality_lib.adapters.files.run_folder import keep_whole
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.bounds_record import bounds_record
from quality_lib.serving.learned_bounds import BOUNDS, read_bounds

__all__ = ["BOUNDS", "read_bounds", "write_bounds"]


def write_bounds(path: Path, bounds: LearnedBounds) -> None:
    """Write the file so that it is either whole or not there."""
    text = json.dumps(bounds_record(bounds), indent=1) + "\n"
    keep_whole(path, text.encode())
