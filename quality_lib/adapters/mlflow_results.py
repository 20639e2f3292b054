"""Golden results in MLflow: one run per check, with metrics, report and recordings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow_server import MlflowServer
from quality_lib.golden.comparison import Statistic
from quality_lib.golden.result import GoldenResult, TrendPoint
from quality_lib.records import Summary, Tri

KIND_TAG = "quality.kind"
KIND = "golden-check"
RUN_ID_TAG = "quality.run_id"


@dataclass(frozen=True)
class PublishedRun:
    """Where a result lies in MLflow."""

    run_id: str
    mlflow_run_id: str
    run_url: str
    report_url: str


class MlflowResults:
    """Writes and reads golden results; publishing the same run twice writes it once."""

    def __init__(self, uri: str) -> None:
        self._server = MlflowServer(uri)

    def publish(self, result: GoldenResult, files: Mapping[str, Path]) -> PublishedRun:
        """Store a result with its files (name → path).

        Raises:
            OutsideFailure: MLflow does not answer; the files stay where they are.
        """
        with self._server.session() as client:
            experiment = self._server.experiment(client, _experiment_name(result.service))
            # Finished runs only: a run that broke off half-way is written again under a new id.
            found = self._search(
                client, experiment, f"tags.`{RUN_ID_TAG}` = '{result.run_id}'", limit=1
            )
            if found:
                return self._address(result.run_id, experiment, found[0].info.run_id)
            run = client.create_run(
                experiment,
                run_name=f"golden {result.started_at[:16]}",
                tags=_tags(result),
            )
            for name, value in metrics(result).items():
                client.log_metric(run.info.run_id, name, value)
            for name, path in sorted(files.items()):
                parent = str(Path(name).parent)
                client.log_artifact(run.info.run_id, str(path), None if parent == "." else parent)
            client.set_terminated(run.info.run_id, "FINISHED")
            return self._address(result.run_id, experiment, run.info.run_id)

    def history(self, service: str, limit: int = 168) -> tuple[TrendPoint, ...]:
        """Return the latest checks of a service, oldest first; 168 hourly ones make a week."""
        with self._server.session() as client:
            experiment = client.get_experiment_by_name(_experiment_name(service))
            if experiment is None:
                return ()
            runs = self._search(
                client, experiment.experiment_id, f"tags.`{KIND_TAG}` = '{KIND}'", limit=limit
            )
        points = [point for run in runs if (point := _point(run)) is not None]
        return tuple(sorted(points, key=lambda point: point.started_at))

    @staticmethod
    def _search(client: Any, experiment: str, where: str, limit: int) -> list[Any]:
        return list(
            client.search_runs(
                [experiment],
                filter_string=f"{where} and attributes.status = 'FINISHED'",
                order_by=["attributes.start_time DESC"],
                max_results=limit,
            )
        )

    def _address(self, run_id: str, experiment: str, mlflow_run_id: str) -> PublishedRun:
        run_url = self._server.page(f"experiments/{experiment}/runs/{mlflow_run_id}")
        report_url = f"{run_url}/artifacts/report.html" if run_url else ""
        return PublishedRun(run_id, mlflow_run_id, run_url, report_url)


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
    }
    for finding in comparison.findings:
        name = f"{finding.statistic}.{finding.channel}" if finding.channel else finding.statistic
        values[str(name)] = finding.value
    return {k: float(v) for k, v in values.items() if v is not None and math.isfinite(v)}


def _tags(result: GoldenResult) -> dict[str, str]:
    return {
        KIND_TAG: KIND,
        RUN_ID_TAG: result.run_id,
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
