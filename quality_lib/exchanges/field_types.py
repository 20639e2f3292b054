"""Typed access to the fields of a decoded JSON record. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.json_fields import LARGEST_COUNT


class WrongField(Exception):
    """A field whose value cannot be used; the reader of the record adds file and line."""

    def __init__(self, field: str, problem: str, fix: str) -> None:
        self.field = field
        self.problem = problem
        self.fix = fix
        super().__init__(problem)


@dataclass(frozen=True)
class Fields:
    """An object of a record; a field that holds null counts as absent."""

    values: Mapping[str, Any]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value, or ``default`` when it is absent or null."""
        value = self.values.get(name)
        return default if value is None else value

    def inner(self, name: str) -> Fields:
        """Return an inner object; absent and null give an empty one."""
        value = self.values.get(name)
        if value is None:
            return _EMPTY
        if not isinstance(value, Mapping):
            raise WrongField(
                name,
                f"must be an object, not {json.dumps(value, default=str)[:40]}",
                f'write "{name}": {{…}}',
            )
        return Fields(value)


_EMPTY = Fields({})


def text(value: Any, field: str) -> str | None:
    """Return a text or None."""
    if value is None or isinstance(value, str):
        return value
    raise WrongField(
        field, f"must be a text, not {json.dumps(value, default=str)[:40]}", f'write "{field}": "…"'
    )


def counted(value: Any, field: str) -> int | None:
    """Return a count, which is a whole number from 0, or None; 12.0 from a data frame is 12."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
        return value
    raise WrongField(
        field,
        f"must be a whole number from 0, not {json.dumps(value, default=str)[:40]}",
        "write the number of tokens, or leave the field out",
    )


def ids(value: Any, field: str) -> tuple[int, ...] | None:
    """Return token ids or None."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and all(type(v) is int for v in value):
        return tuple(value)
    raise WrongField(
        field, "must be a list of whole numbers", "write the token ids, or leave it out"
    )


def numbers(value: Any, field: str) -> tuple[float, ...] | None:
    """Return numbers or None; nulls inside, such as the first token of an echo, are left out."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        found = [v for v in value if v is not None]
        if all(type(v) is float or (type(v) is int and abs(v) <= LARGEST_COUNT) for v in found):
            return tuple(float(v) for v in found)
    raise WrongField(
        field, "must be a list of numbers", "write one number per token, or leave it out"
    )
