"""Finished results as runs of one MLflow experiment: each stored once, whatever broke before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.server import MlflowServer

KIND_TAG = "quality.kind"
RUN_ID_TAG = "quality.run_id"


@dataclass(frozen=True)
class PublishedRun:
    """Where a result lies in MLflow."""

    run_id: str
    mlflow_run_id: str
    run_url: str
    report_url: str


@dataclass(frozen=True)
class NewRun:
    """What one result becomes."""

    run_id: str
    """Our own id; a finished run that carries it is the result, and is not written again."""
    name: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    files: Mapping[str, Path]
    """By name below the run's artifacts."""


class MlflowRuns:
    """Runs of one kind in MLflow."""

    def __init__(self, uri: str, kind: str) -> None:
        self._server = MlflowServer(uri)
        self._kind = kind

    def publish(self, experiment_name: str, new: NewRun) -> PublishedRun:
        """Store a result unless it is there.

        Raises:
            OutsideFailure: MLflow does not answer; the files stay where they are.
        """
        with self._server.session() as client:
            experiment = self._server.experiment(client, experiment_name)
            # Finished runs only: a run that broke off half-way is written again under a new id.
            found = self._search(
                client, experiment, f"tags.`{RUN_ID_TAG}` = '{new.run_id}'", limit=1
            )
            if found:
                return self._address(new.run_id, experiment, found[0].info.run_id)
            tags = {KIND_TAG: self._kind, RUN_ID_TAG: new.run_id, **new.tags}
            run = client.create_run(experiment, run_name=new.name, tags=tags)
            for name, value in new.metrics.items():
                client.log_metric(run.info.run_id, name, value)
            for name, path in sorted(new.files.items()):
                parent = str(Path(name).parent)
                client.log_artifact(run.info.run_id, str(path), None if parent == "." else parent)
            client.set_terminated(run.info.run_id, "FINISHED")
            return self._address(new.run_id, experiment, run.info.run_id)

    def latest(self, experiment_name: str, limit: int, where: str = "") -> list[Any]:
        """Return the latest finished runs of this kind, the newest first; none without experiment.

        ``where`` narrows them, in MLflow's filter language.
        """
        with self._server.session() as client:
            experiment = client.get_experiment_by_name(experiment_name)
            if experiment is None:
                return []
            asked = f"tags.`{KIND_TAG}` = '{self._kind}'" + (f" and {where}" if where else "")
            return self._search(client, experiment.experiment_id, asked, limit=limit)

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
