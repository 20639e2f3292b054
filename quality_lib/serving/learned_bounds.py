"""Reads a ``bounds.json`` inside the server; the file is written by `adapters.bounds_file`."""

from __future__ import annotations

import json
from pathlib import Path

from quality_lib.errors import BadInput
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.bounds_record import parse_bounds

BOUNDS = "bounds.json"


def read_bounds(path: Path) -> LearnedBounds:
    """Load a file of learned bounds, or the one in a folder.

    Raises:
        BadInput: naming file and field.
    """
    if path.is_dir():
        path /= BOUNDS
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadInput(
            "there are no learned bounds", file=path, fix="make them with 'quality golden baseline'"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot be read as JSON: {error}", file=path) from error
    return parse_bounds(data, str(path))
