"""Learned bounds as plain data and back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.gates.bounds import LearnedBounds, Range

SCHEMA = 1
_FIX = "make it again with 'quality golden baseline'"
_RANGES = tuple(
    f.name for f in fields(LearnedBounds) if f.name not in {"window", "answers", "false_alarm"}
)


def bounds_record(bounds: LearnedBounds) -> dict[str, Any]:
    """Return the bounds as JSON-ready data."""
    return {"schema": SCHEMA, **asdict(bounds)}


def parse_bounds(data: Any, file: str | None = None) -> LearnedBounds:
    """Check data and return the bounds; missing fields are not learned.

    Raises:
        BadInput: naming file and field.
    """
    if not isinstance(data, Mapping):
        raise BadInput("holds no learned bounds", file=file, fix=_FIX)
    if data.get("schema") != SCHEMA:
        raise BadInput(
            f"has schema {data.get('schema')!r}, this release reads {SCHEMA}",
            file=file,
            field="schema",
            fix=_FIX,
        )
    known = {"schema", "window", "answers", "false_alarm", *_RANGES}
    if unknown := sorted(set(map(str, data)) - known):
        raise BadInput("is not a learned bound", file=file, field=unknown[0], fix=_FIX)
    rate = data.get("false_alarm")
    return LearnedBounds(
        window=_count(data, "window", LearnedBounds.window, 1, file),
        answers=_count(data, "answers", 0, 0, file),
        false_alarm=None if rate is None else _number(rate, "false_alarm", file),
        **{name: _range(data.get(name), name, file) for name in _RANGES},
    )


def _count(data: Mapping[str, Any], name: str, default: int, least: int, file: str | None) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadInput(f"must be a whole number of at least {least}", file=file, field=name)
    return value


def _number(value: Any, name: str, file: str | None) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise BadInput("must be a finite number", file=file, field=name, fix=_FIX)
    return float(value)


def _range(value: Any, name: str, file: str | None) -> Range | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or set(value) != {"low", "high"}:
        raise BadInput("must be {low, high} or null", file=file, field=name, fix=_FIX)
    low, high = (
        None if value[side] is None else _number(value[side], f"{name}.{side}", file)
        for side in ("low", "high")
    )
    try:
        return Range(low, high)
    except ValueError as error:
        raise BadInput(str(error), file=file, field=name, fix=_FIX) from None
