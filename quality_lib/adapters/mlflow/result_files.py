"""Reads a whole golden result back from MLflow, worst cases and all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from quality_lib.adapters.files.result import RESULT, read_result
from quality_lib.adapters.mlflow.runs import RUN_ID_TAG
from quality_lib.adapters.mlflow.server import MlflowServer
from quality_lib.errors import BadInput, NoData
from quality_lib.golden.result import GoldenResult


def fetch_result(uri: str, service: str, run_id: str) -> GoldenResult:
    """Return the golden result of our own run id.

    Raises:
        NoData: MLflow has no finished run of that id, or no result with it.
        BadInput: what it has cannot be read by this release.
        OutsideFailure: MLflow does not answer.
    """
    server = MlflowServer(uri)
    if "'" in run_id:
        raise BadInput(f"{run_id!r} is no id of a golden run")
    with server.session() as client, tempfile.TemporaryDirectory(prefix="golden-") as folder:
        experiment = client.get_experiment_by_name(f"quality/{service}/golden")
        runs = (
            client.search_runs(
                [experiment.experiment_id],
                filter_string=f"tags.`{RUN_ID_TAG}` = '{run_id}' and attributes.status = 'FINISHED'",
                max_results=1,
            )
            if experiment is not None
            else []
        )
        if not runs:
            raise NoData(f"golden run {run_id} of '{service}' is not in {server.name}")
        mlflow_run = runs[0].info.run_id
        if not any(item.path == RESULT for item in client.list_artifacts(mlflow_run)):
            raise NoData(f"golden run {run_id} holds no {RESULT}")
        client.download_artifacts(mlflow_run, RESULT, folder)
        return read_result(Path(folder))
