"""The way to an MLflow server: quick to notice that it is down, its errors made ours."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from quality_lib.errors import OutsideFailure

PROBE_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 30
MAX_RETRIES = 1
"""MLflow's own 7 retries with growing pauses would hide a dead server for minutes."""


def slug(name: str) -> str:
    """Return a name that MLflow accepts; a changed one gets a hash so that no two collide."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    if plain == name:
        return name
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


class MlflowServer:
    """One MLflow server, or a ``sqlite:`` or ``file:`` address without one."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._is_http = urlsplit(self._uri).scheme in {"http", "https"}
        self.name = f"MLflow at {_without_password(self._uri)}"

    @contextmanager
    def session(self) -> Generator[Any]:
        """Give MLflow's client and turn its errors into ours.

        Raises:
            OutsideFailure: the server does not answer (known within about 5 s) or refuses.
        """
        self._probe()
        _configure()
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from requests import RequestException

        try:
            yield MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)
        except MlflowException as error:
            first_line = str(error.message).splitlines()[0][:300]
            if "failed with exception" in first_line:  # how MLflow wraps a broken connection
                raise self._broken(type(error).__name__) from error
            raise OutsideFailure(f"{self.name} refused: {first_line}") from error
        except RequestException as error:
            raise self._broken(type(error).__name__) from error

    def experiment(self, client: Any, name: str) -> str:
        """Return the id of an experiment, which is made when it does not exist."""
        from mlflow.exceptions import MlflowException

        found = client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(client.create_experiment(name))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = client.get_experiment_by_name(name)  # somebody else was faster
        if found is None or found.lifecycle_stage == "deleted":
            raise OutsideFailure(
                f"the experiment '{name}' of {self.name} was deleted. "
                "Fix: restore it in MLflow (mlflow experiments restore)"
            )
        return str(found.experiment_id)

    def download(self, client: Any, model_id: str, name: str, folder: Path) -> Path | None:
        """Fetch one file of a logged model; ``None`` when it is not there."""
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException

        try:
            # Not by models:/ID, for MLflow looks that up at the process's default address.
            place = client.get_logged_model(model_id).artifact_location
            got = download_artifacts(
                artifact_uri=f"{place}/{name}",
                dst_path=str(folder),
                tracking_uri=self._uri,
                registry_uri=self._uri,
            )
        except (MlflowException, OSError) as error:
            if not _is_absent(error):
                raise
            return None
        file = Path(got)
        return file if file.is_file() else None

    def page(self, path: str) -> str:
        """Return the address of a page of MLflow's site; empty without a server."""
        return f"{_without_password(self._uri)}/#/{path}" if self._is_http else ""

    def _probe(self) -> None:
        if not self._is_http:
            return
        try:
            answer = httpx.get(f"{self._uri}/health", timeout=PROBE_TIMEOUT_S)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._silent(type(error).__name__) from error
        if answer.status_code >= 500:
            raise self._silent(f"HTTP {answer.status_code}")

    def _broken(self, why: str) -> OutsideFailure:
        """Tell a server that is away from one that has lost what stands behind it."""
        try:
            self._probe()
        except OutsideFailure as silent:
            return silent
        return OutsideFailure(
            f"{self.name} answers and cannot do this ({why}): its database or the store of its files does "
            "not answer. Fix: see MLflow's own log"
        )

    def _silent(self, why: str) -> OutsideFailure:
        return OutsideFailure(
            f"{self.name} does not answer ({why}). Fix: start it, or correct stores.mlflow in quality.yaml"
        )


def _configure() -> None:
    """Set what MLflow takes from the process only: short waits, and a silent stdout."""
    # Before MLflow is imported, which starts its telemetry: a monitor tells nobody outside, and the
    # telemetry's thread has been seen to break a request that ran beside it.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import environment_variables as mlflow_env

    mlflow_env.MLFLOW_HTTP_REQUEST_MAX_RETRIES.set(MAX_RETRIES)
    mlflow_env.MLFLOW_HTTP_REQUEST_TIMEOUT.set(REQUEST_TIMEOUT_S)
    mlflow_env.MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR.set(False)
    mlflow_env.MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.set(True)


def _is_absent(error: Exception) -> bool:
    if isinstance(error, FileNotFoundError):
        return True
    code = getattr(error, "error_code", "")
    status = getattr(getattr(error, "response", None), "status_code", None)
    return code in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"} or status == 404


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
