"""Paths into JSON, as a configuration names them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Path = tuple[str | int, ...]

_STEP = re.compile(
    r"""(?P<dot>^|\.)(?P<name>[^.\[\]"']+)      # .name, or a name at the beginning
      | \[(?P<index>-?\d{1,6})\]                # [0], [-1]
      | \["(?P<quoted>[^"]+)"\]                 # ["gen_ai.request.model"]
    """,
    re.VERBOSE,
)

MISSING: Any = object()
"""What ``look_up`` returns when the path leads nowhere."""


def compile_path(written: str) -> Path:
    """Read ``a.b[0]["dotted.name"]``.

    Raises:
        ValueError: naming the place where the path stops making sense.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(written):
        step = _STEP.match(written, at)
        if step is None:
            raise ValueError(
                f"path {written!r} cannot be read from character {at + 1} on; "
                'write steps as name, .name, [0] or ["name.with.dots"]'
            )
        index = step["index"]
        steps.append(int(index) if index is not None else step["name"] or step["quoted"])
        at = step.end()
    if not steps:
        raise ValueError("a path must not be empty")
    return tuple(steps)


def look_up(data: Any, path: Path) -> Any:
    """Return what lies at the path, null included, or ``MISSING``."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(data, list) or not -len(data) <= step < len(data):
                return MISSING
            data = data[step]
        elif isinstance(data, Mapping) and step in data:
            data = data[step]
        else:
            return MISSING
    return data
