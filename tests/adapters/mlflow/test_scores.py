"""Scores in a real MLflow: published once, read back as a trend of their own depth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.mlflow.scores import MlflowScores, metrics
from quality_lib.errors import OutsideFailure
from quality_lib.records import Summary
from quality_lib.scoring.result import Depth
from tests.adapters.pages.test_scores_report import result

pytestmark = pytest.mark.stack


def window(service: str, number: int, **more: Any) -> Any:
    found = result(**more)
    return replace(
        found,
        service=service,
        score_id=f"{service}-{found.depth.value}-{number}",
        end=f"2026-03-01T{number:02d}:00:00+00:00",
    )


def test_publishing_twice_stores_once_and_the_trend_keeps_depths_apart(
    mlflow_uri: str, tmp_path: Path
) -> None:
    store = MlflowScores(mlflow_uri)
    report = tmp_path / "report.html"
    report.write_text("<!doctype html>fine", encoding="utf-8")
    for number in (2, 1):
        store.publish(window("scores", number), {"report.html": report})
    again = store.publish(window("scores", 1), {"report.html": report}, rows_uri="s3://b/x")
    store.publish(window("scores", 3, depth=Depth.DEEP), {})
    trend = store.history("scores", Depth.QUICK)
    assert [point.score_id for point in trend] == ["scores-quick-1", "scores-quick-2"]
    assert trend[0].share == pytest.approx(0.2)
    assert (trend[0].summary, trend[0].rows) == (Summary.DEGRADED, 100)
    assert (trend[0].start, trend[0].effective_rows) == ("2026-03-01T00:00:00+00:00", 100.0)
    assert again.mlflow_run_id in again.report_url
    assert [p.score_id for p in store.history("scores", Depth.DEEP)] == ["scores-deep-3"]
    assert store.history("nobody", Depth.QUICK) == ()


def test_a_dead_mlflow_is_an_outside_failure() -> None:
    with pytest.raises(OutsideFailure, match="does not answer"):
        MlflowScores("http://127.0.0.1:9").publish(result(), {})


def test_what_is_not_known_is_no_metric_and_what_was_counted_is() -> None:
    known = metrics(result())
    assert (known["low_quality_rate"], known["low"], known["reason.loop_only"]) == (0.2, 20.0, 20.0)
    assert known["low_quality_rate_low"] < 0.2 < known["low_quality_rate_high"]
    assert "low_quality_rate" not in metrics(result(0, 0))
    assert metrics(result(0, 0))["healthy"] == 0.0
