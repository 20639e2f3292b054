"""The frozen nouns that everything else speaks in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What a check found. UNJUDGED means that nothing could be said: it is never a pass."""

    PASSED = "PASSED"
    SUSPECT = "SUSPECT"
    FAILED = "FAILED"
    UNJUDGED = "UNJUDGED"


@dataclass(frozen=True)
class Verdict:
    """What one gate or check says of one thing."""

    outcome: Outcome
    reason: str
    """A stable code such as ``json_schema_mismatch``; dashboards and tests key on it."""
    sentence: str
    """The same for a person, with the numbers in it."""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Tri(StrEnum):
    """Yes, no, or not known: the answer to *changed?* and *degraded?*."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Summary(StrEnum):
    """The four-valued summary of a golden run, about the quality of what is served."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
