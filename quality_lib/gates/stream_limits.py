"""Limits of level 3, with their defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class StreamLimits:
    """When a stream that is still being generated has gone bad."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    reaction: str = "observe"
    """``observe``, ``stop`` (end the stream with its own finish reason) or ``correct`` (re-draw the step)."""
