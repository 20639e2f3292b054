"""What an engine's own signals say, one finding each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.records import Tri


@dataclass(frozen=True)
class EngineFinding:
    """One signal of an engine, judged."""

    name: str
    state: Tri
    """YES: it speaks of damage; UNKNOWN: it could not be read or compared."""
    sentence: str
    evidence: Mapping[str, Any]
    at: str
    """When it was read, UTC, ISO 8601."""
