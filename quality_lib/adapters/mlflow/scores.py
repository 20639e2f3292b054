"""Scores of production logs in MLflow: one run a window, with rates, report and details."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.runs import RUN_ID_TAG, MlflowRuns, NewRun, PublishedRun
from quality_lib.records import Summary, Tri
from quality_lib.scoring.result import Depth, ScorePoint, ScoreResult, by_cause

KIND = "log-score"
DEPTH_TAG = "quality.depth"
MOST_REASONS = 40
"""Reason codes that become metrics; the rest are in the score file."""


class MlflowScores:
    """Writes and reads scores; publishing the same window twice writes it once."""

    def __init__(self, uri: str) -> None:
        self._runs = MlflowRuns(uri, KIND)

    def publish(
        self, result: ScoreResult, files: Mapping[str, Path], *, rows_uri: str = ""
    ) -> PublishedRun:
        """Store a score with its files (name → path).

        Raises:
            OutsideFailure: MLflow does not answer; the files stay where they are.
        """
        new = NewRun(
            run_id=result.score_id,
            name=f"{result.depth.value} {result.end[:16]}",
            tags=_tags(result, rows_uri),
            metrics=metrics(result),
            files=files,
        )
        return self._runs.publish(_experiment_name(result.service), new)

    def history(self, service: str, depth: Depth, limit: int = 144) -> tuple[ScorePoint, ...]:
        """Return the latest scores of one depth, oldest first; 144 quick ones make a day."""
        runs = self._runs.latest(
            _experiment_name(service), limit, f"tags.`{DEPTH_TAG}` = '{depth.value}'"
        )
        points = [point for run in runs if (point := _point(run)) is not None]
        return tuple(sorted(points, key=lambda point: point.end))


def _experiment_name(service: str) -> str:
    return f"quality/{service}/scores"


def metrics(result: ScoreResult) -> dict[str, float]:
    """Return the finite numbers of a score by metric name; what is not known has none."""
    whole, counts, replay = result.whole, result.counts, result.replay
    values: dict[str, float | None] = {
        "low_quality_rate": whole.rate.share if whole.rate else None,
        "low_quality_rate_low": whole.rate.low if whole.rate else None,
        "low_quality_rate_high": whole.rate.high if whole.rate else None,
        "suspect_rate": whole.suspect_rate.share if whole.suspect_rate else None,
        "rows": whole.rows,
        "effective_rows": whole.rate.effective_rows if whole.rate else None,
        "judged": whole.judged,
        "low": whole.low,
        "suspect": whole.suspect,
        "entries": counts.entries,
        "bad_lines": counts.bad_lines,
        "crashed": result.crashed,
        "requests_flagged": result.requests_flagged,
        "healthy": float(result.verdict.summary is Summary.HEALTHY),
        "changed": float(result.verdict.changed is Tri.YES),
        "duration_s": result.duration_s,
    }
    values |= {f"dropped.{cause}": n for cause, n in by_cause(counts).items()}
    for reason in result.reasons[:MOST_REASONS]:
        name = f"reason.{reason.code}"
        values[name] = (values.get(name) or 0.0) + reason.rows
    if replay is not None:
        values |= {
            "replay.answers": replay.rows,
            "replay.tokens": replay.tokens,
            "replay.mean_difference": replay.mean_difference,
            "replay.contradicted_answers": replay.flagged,
        }
    return {k: float(v) for k, v in values.items() if v is not None and math.isfinite(v)}


def _tags(result: ScoreResult, rows_uri: str) -> dict[str, str]:
    tags = {
        "quality.service": result.service,
        DEPTH_TAG: result.depth.value,
        "quality.summary": result.verdict.summary.value,
        "quality.changed": result.verdict.changed.value,
        "quality.window_start": result.start,
        "quality.window_end": result.end,
        "quality.rows": rows_uri,
        "mlflow.note.content": "\n\n".join([
            f"**{result.verdict.headline}**",
            *(reason.sentence for reason in result.verdict.reasons),
        ]),
    }
    return {name: value for name, value in tags.items() if value}


def _point(run: Any) -> ScorePoint | None:
    """Read a run's numbers back; None for one that somebody else has written or altered."""
    tags, values = run.data.tags, run.data.metrics
    try:
        return ScorePoint(
            score_id=tags[RUN_ID_TAG],
            end=tags["quality.window_end"],
            depth=Depth(tags[DEPTH_TAG]),
            summary=Summary(tags["quality.summary"]),
            changed=Tri(tags["quality.changed"]),
            rows=int(values.get("judged", 0)),
            share=values.get("low_quality_rate"),
            low=values.get("low_quality_rate_low"),
            high=values.get("low_quality_rate_high"),
            start=tags.get("quality.window_start", ""),
            effective_rows=values.get("effective_rows"),
        )
    except (KeyError, ValueError):
        return None
