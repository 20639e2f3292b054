"""Golden results in MLflow: one run per check, with metrics, report and recordings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.result_files import fetch_result
from quality_lib.adapters.mlflow.runs import RUN_ID_TAG, MlflowRuns, NewRun, PublishedRun
from quality_lib.errors import BadInput, NoData
from quality_lib.golden.comparison import Statistic
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.golden.result import GoldenResult, TrendPoint
from quality_lib.records import Summary, Tri

KIND = "golden-check"
DRIFT_TAG = "quality.drift_key"
NO_DRIFT = "none"
_LOOK_BACK = 24
"""Checks without a decision, as with a calibration switched off, that a state may lie behind."""


class MlflowResults:
    """Writes and reads golden results; publishing the same run twice writes it once."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._runs = MlflowRuns(uri, KIND)

    def publish(self, result: GoldenResult, files: Mapping[str, Path]) -> PublishedRun:
        """Store a result with its files (name → path).

        Raises:
            OutsideFailure: MLflow does not answer; the files stay where they are.
        """
        return self._runs.publish(
            _experiment_name(result.service),
            NewRun(
                run_id=result.run_id,
                name=f"golden {result.started_at[:16]}",
                tags=_tags(result),
                metrics=metrics(result),
                files=files,
            ),
        )

    def history(self, service: str, limit: int = 168) -> tuple[TrendPoint, ...]:
        """Return the latest checks of a service, oldest first; 168 hourly ones make a week."""
        runs = self._runs.latest(_experiment_name(service), limit)
        points = [point for run in runs if (point := _point(run)) is not None]
        return tuple(sorted(points, key=lambda point: point.started_at))

    def last_drift(self, service: str, key: str) -> tuple[DriftRecord | None, str]:
        """Return the decision of the latest published check, and in words where it comes from.

        Only when it stands on the calibration of ``key``: a decision on another one in between ends
        what was known before it.

        Raises:
            OutsideFailure: MLflow does not answer.
        """
        for run in self._runs.latest(_experiment_name(service), _LOOK_BACK):
            held, run_id = run.data.tags.get(DRIFT_TAG, NO_DRIFT), run.data.tags.get(RUN_ID_TAG)
            if held == NO_DRIFT or run_id is None:
                continue
            if held != key:
                return None, f"none: check {run_id} stood on another calibration"
            try:
                found = fetch_result(self._uri, service, run_id).drift
            except (BadInput, NoData) as error:
                return None, f"lost: {error}"
            if found is not None and found.key == key:
                return found, f"check {run_id}"
            return None, f"lost: check {run_id} holds another decision than its tags say"
        return None, "none: this is the first published check of this calibration"


def _experiment_name(service: str) -> str:
    return f"quality/{service}/golden"


def metrics(result: GoldenResult) -> dict[str, float]:
    """Return the finite numbers of a result by metric name."""
    comparison = result.comparison
    values: dict[str, float | None] = {
        "mean_similarity": comparison.mean_similarity,
        "probes": comparison.probes,
        "judged": comparison.judged,
        "lost_in_transport": comparison.lost,
        "cases_missing": len(comparison.missing),
        "duration_s": result.duration_s,
        "tokens_generated": result.tokens.get("generated"),
        "tokens_scored": result.tokens.get("scored"),
        "healthy": float(result.verdict.summary is Summary.HEALTHY),
        "changed": float(result.verdict.changed is Tri.YES),
        "drift_e_value": result.drift.e_value if result.drift else None,
        "drift_level": result.drift.level if result.drift else None,
    }
    for finding in comparison.findings:
        name = f"{finding.statistic}.{finding.channel}" if finding.channel else finding.statistic
        values[str(name)] = finding.value
    return {k: float(v) for k, v in values.items() if v is not None and math.isfinite(v)}


def _tags(result: GoldenResult) -> dict[str, str]:
    return {
        "quality.service": result.service,
        "quality.summary": result.verdict.summary,
        "quality.changed": result.verdict.changed,
        "quality.degraded": result.verdict.degraded,
        "quality.snapshot_id": result.snapshot_id,
        "quality.deployment_key": result.deployment_key,
        "quality.is_snapshot_deployment": str(result.is_snapshot_deployment).lower(),
        "quality.was_redeployed": str(result.was_redeployed).lower(),
        "quality.started_at": result.started_at,
        "quality.golden_digest": result.comparison.golden_digest,
        DRIFT_TAG: result.drift.key if result.drift else NO_DRIFT,
        "mlflow.note.content": "\n\n".join([
            f"**{result.verdict.headline}**",
            *(reason.sentence for reason in result.verdict.reasons),
        ]),
    }


def _point(run: Any) -> TrendPoint | None:
    """Read a run's numbers back; None for one that somebody else has written or altered."""
    tags, values = run.data.tags, run.data.metrics
    try:
        return _read_point(tags, values)
    except (KeyError, ValueError):
        return None


def _read_point(tags: Mapping[str, str], values: Mapping[str, float]) -> TrendPoint:
    return TrendPoint(
        run_id=tags[RUN_ID_TAG],
        started_at=tags["quality.started_at"],
        summary=Summary(tags["quality.summary"]),
        changed=Tri(tags["quality.changed"]),
        mean_similarity=values.get("mean_similarity"),
        raw_logprob_delta=values.get(f"{Statistic.LOGPROB_DELTA}.raw_scored"),
        deployment_key=tags["quality.deployment_key"],
        is_snapshot_deployment=tags["quality.is_snapshot_deployment"] == "true",
        was_redeployed=tags["quality.was_redeployed"] == "true",
    )
