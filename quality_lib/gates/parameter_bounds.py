"""Bounds of level 2, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class ParameterBounds:
    """Where sampling parameters must lie."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: str = "observe"
    """``observe``, ``clamp`` or ``reject``."""
    temperature: tuple[float, float] = (0.1, 1.2)
    """Exactly 0 is always allowed."""
    top_p: tuple[float, float] = (0.7, 1.0)
