"""Limits of level 1, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class InputLimits:
    """When a request is refused or suspect before it is generated."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    max_characters: int = 200_000
    max_tokens: int | None = None
    """None: what the model takes decides."""
