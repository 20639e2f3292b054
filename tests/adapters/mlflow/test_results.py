"""Golden results in a real MLflow: published once, read back as a trend."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import httpx
import pytest

from quality_lib.adapters.mlflow.results import MlflowResults, metrics
from quality_lib.errors import OutsideFailure
from quality_lib.golden.result import GoldenResult
from quality_lib.records import Summary, Tri
from tests.builders import golden_result

pytestmark = pytest.mark.stack


def result(service: str, number: int = 1, **changes: Any) -> GoldenResult:
    base = golden_result()
    fields = {
        "service": service,
        "run_id": f"run-{number}",
        "started_at": f"2026-01-01T{number:02d}:00:00+00:00",
    }
    return dataclasses.replace(base, **{**fields, **changes})


def test_publishing_twice_stores_once(mlflow_uri: str, tmp_path: Path) -> None:
    store = MlflowResults(mlflow_uri)
    report = tmp_path / "report.html"
    report.write_text("<!doctype html>fine", encoding="utf-8")
    first = store.publish(result("results-once"), {"report.html": report})
    assert store.publish(result("results-once"), {"report.html": report}) == first
    assert len(store.history("results-once")) == 1
    got = httpx.get(
        f"{mlflow_uri}/get-artifact",
        params={"path": "report.html", "run_uuid": first.mlflow_run_id},
    )
    assert got.text == "<!doctype html>fine"
    assert first.mlflow_run_id in first.report_url


def test_a_run_that_broke_off_half_way_is_written_again(mlflow_uri: str, tmp_path: Path) -> None:
    store = MlflowResults(mlflow_uri)
    with pytest.raises((OutsideFailure, OSError)):
        store.publish(result("results-half"), {"report.html": tmp_path / "missing.html"})
    assert store.history("results-half") == ()
    store.publish(result("results-half"), {})
    assert len(store.history("results-half")) == 1


def test_the_trend_comes_back_oldest_first(mlflow_uri: str) -> None:
    store = MlflowResults(mlflow_uri)
    for number in (2, 1, 3):
        store.publish(result("results-trend", number), {})
    trend = store.history("results-trend")
    assert [point.run_id for point in trend] == ["run-1", "run-2", "run-3"]
    assert trend[0].summary is golden_result().verdict.summary
    assert [p.run_id for p in store.history("results-trend", limit=1)] == ["run-3"]


def test_a_service_without_runs_has_no_trend(mlflow_uri: str) -> None:
    assert MlflowResults(mlflow_uri).history("results-nobody") == ()


def test_a_dead_mlflow_is_an_outside_failure() -> None:
    with pytest.raises(OutsideFailure, match="does not answer"):
        MlflowResults("http://127.0.0.1:9").publish(result("x"), {})


def test_only_finite_numbers_become_metrics() -> None:
    verdict = dataclasses.replace(golden_result().verdict, summary=Summary.FAILED, changed=Tri.YES)
    comparison = dataclasses.replace(golden_result().comparison, mean_similarity=None)
    found = metrics(result("x", verdict=verdict, comparison=comparison))
    assert "mean_similarity" not in found
    assert (found["healthy"], found["changed"]) == (0.0, 1.0)
