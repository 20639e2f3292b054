"""Limits of level 4, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class OutputLimits:
    """When a finished answer is suspect or bad."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    min_characters: int = 40
    """Below this length no statistic is taken."""
