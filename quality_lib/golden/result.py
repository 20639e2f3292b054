"""The result of one golden check of a service: what is stored, reported and alerted on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.golden.comparison import Comparison
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.golden.verdict import GoldenVerdict
from quality_lib.records import Summary, Tri
from quality_lib.records import Verdict as CheckVerdict

SCHEMA = 1


@dataclass(frozen=True)
class GoldenResult:
    """One golden check, complete enough to be judged again without the server."""

    schema: int
    service: str
    endpoint: str
    model: str
    run_id: str
    started_at: str
    """UTC, ISO 8601."""
    duration_s: float
    snapshot_id: str
    """The snapshot that the service was held against."""
    deployment_key: str
    """Identity of what was serving; equal to the snapshot's unless something else was deployed."""
    is_snapshot_deployment: bool
    """Whether the files and arguments that serve are the snapshot's own."""
    was_redeployed: bool
    """Whether other arguments, another image or another weights folder say that this was meant.
    Other content in the same folder is no redeployment: it may be damage."""
    verdict: GoldenVerdict
    comparison: Comparison
    startup: tuple[CheckVerdict, ...]
    """The start-up check (G6.1): one verdict per fact of the server."""
    environment: Mapping[str, Any]
    """Of the server: versions, processor, GPU."""
    tokens: Mapping[str, int]
    """``generated`` and ``scored``: what the check cost."""
    drift: DriftRecord | None = None
    """The decision on *changed* by a calibration; None where there is none."""


@dataclass(frozen=True)
class TrendPoint:
    """One earlier golden check, as the trend plot shows it."""

    run_id: str
    started_at: str
    summary: Summary
    changed: Tri
    mean_similarity: float | None
    raw_logprob_delta: float | None
    """Nats per token."""
    deployment_key: str = ""
    is_snapshot_deployment: bool = True
    was_redeployed: bool = False
