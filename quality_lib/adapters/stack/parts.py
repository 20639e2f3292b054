"""The parts of the local stack: which program, with which arguments, and when it is ready."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from quality_lib.adapters.machine.ports import LOOPBACK
from quality_lib.adapters.machine.processes import ProcessId
from quality_lib.adapters.stack.airflow_client import AirflowClient
from quality_lib.adapters.stack.airflow_home import USER, AirflowHome
from quality_lib.adapters.stack.processes import Part
from quality_lib.adapters.stack.s3_contents import BUCKET, CREDENTIALS, S3Contents
from quality_lib.errors import OutsideFailure
from quality_lib.settings import CONFIG_ENV, HOME_ENV

S3, MLFLOW, API_SERVER = "s3", "mlflow", "airflow-api-server"
SCHEDULER, DAG_PROCESSOR, TRIGGERER = (
    "airflow-scheduler",
    "airflow-dag-processor",
    "airflow-triggerer",
)

AIRFLOW_WORKERS = {
    # program → the name it has in Airflow's health report
    SCHEDULER: "scheduler",
    DAG_PROCESSOR: "dag_processor",
    TRIGGERER: "triggerer",
}
ALL = (S3, MLFLOW, API_SERVER, *AIRFLOW_WORKERS)

QUIET = {
    "PYTHONUTF8": "1",
    "PYTHONUNBUFFERED": "1",
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


FOREIGN = ("AIRFLOW__", "AIRFLOW_HOME", "AIRFLOW_CONFIG", "MLFLOW_", "AWS_")
"""Variables of the shell that would turn our own parts to somebody else's servers."""


def url(port: int) -> str:
    """Return the address of a part on this machine."""
    return f"http://{LOOPBACK}:{port}"


@dataclass(frozen=True)
class StackParts:
    """Describes every part of one stack."""

    home: Path
    repository: Path
    inherited: Mapping[str, str]
    """The environment of whoever starts the stack."""
    has_schedules: bool = True
    """Whether Airflow runs DAGs by their schedules."""

    @property
    def airflow_home(self) -> AirflowHome:
        """The folder of Airflow in this stack."""
        return AirflowHome(self.home / "airflow", self.repository, self.has_schedules)

    def s3_contents(self, port: int) -> S3Contents:
        """Return the bucket of the S3 server."""
        return S3Contents(url(port), self.home / "stack" / "s3-contents")

    def airflow(self, port: int) -> AirflowClient:
        """Return a client of the Airflow of this stack."""
        return AirflowClient(url(port), USER, self.airflow_home.password)

    def s3(self, port: int) -> Part:
        """Moto's server."""
        contents = self.s3_contents(port)
        return Part(
            name=S3,
            command=(sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)),
            settings=QUIET,
            surroundings=self._surroundings(),
            folder=self.home,
            port=port,
            is_ready=lambda _: contents.answers(),
            timeout_s=60.0,
        )

    def mlflow(self, port: int, s3_port: int) -> Part:
        """MLflow's tracking server; it hands artifacts on to S3, so clients need no keys."""
        folder = self.home / "mlflow"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Part(
            name=MLFLOW,
            command=(
                *(sys.executable, "-m", "mlflow", "server"),
                *("--host", LOOPBACK, "--port", str(port), "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
                *("--serve-artifacts", "--artifacts-destination", f"s3://{BUCKET}/mlflow"),
                # Against DNS rebinding: the server answers to these names only.
                *("--allowed-hosts", f"{LOOPBACK}:{port},localhost:{port}"),
                *("--cors-allowed-origins", f"{url(port)},http://localhost:{port}"),
            ),
            settings={
                **QUIET,
                **self._s3_env(s3_port),
                # Its job runner is for evaluations we do not use, and costs processes.
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },
            surroundings=self._surroundings(),
            folder=folder,
            port=port,
            is_ready=lambda _: _answers(f"{url(port)}/health"),
        )

    def airflow_server(self, port: int, settings: Mapping[str, str]) -> Part:
        """Airflow's API server, which is its web page too."""
        return self._airflow_part(
            API_SERVER,
            ("api-server",),
            settings,
            lambda _: _answers(f"{url(port)}/api/v2/version"),
            port,
        )

    def airflow_worker(self, name: str, port: int, settings: Mapping[str, str]) -> Part:
        """The scheduler, the DAG processor or the triggerer of the API server on ``port``."""
        component = AIRFLOW_WORKERS[name]
        program = component.replace("_", "-")
        # Logs are read from the folder; their servers would listen on every interface.
        extra = ("--skip-serve-logs",) if name in {SCHEDULER, TRIGGERER} else ()

        def is_ready(leader: ProcessId) -> bool:
            try:
                with self.airflow(port) as client:
                    told = client.heartbeats().get(component)
            except OutsideFailure:
                return False
            # The database still holds the last sign of life of the run before.
            return told is not None and told.timestamp() > leader.started

        return self._airflow_part(name, (program, *extra), settings, is_ready, None)

    def airflow_settings(
        self, ports: Mapping[str, int], config: Path, connections: Mapping[str, str]
    ) -> dict[str, str]:
        """Return what Airflow and its tasks see."""
        return {
            **QUIET,
            **self._s3_env(ports[S3]),
            "AIRFLOW_HOME": str(self.airflow_home.folder),
            "AIRFLOW_CONFIG": str(self.airflow_home.folder / "airflow.cfg"),
            "MLFLOW_TRACKING_URI": url(ports[MLFLOW]),
            CONFIG_ENV: str(config),
            HOME_ENV: str(self.home),
            **{f"AIRFLOW_CONN_{name.upper()}": uri for name, uri in connections.items()},
        }

    def _airflow_part(
        self,
        name: str,
        arguments: tuple[str, ...],
        settings: Mapping[str, str],
        is_ready: Callable[[ProcessId], bool],
        port: int | None,
    ) -> Part:
        return Part(
            name=name,
            command=(sys.executable, "-m", "airflow", *arguments),
            settings=settings,
            surroundings=self._surroundings(),
            folder=self.airflow_home.folder,
            port=port,
            is_ready=is_ready,
            configuration=(self.airflow_home.folder / "airflow.cfg").read_text(encoding="utf-8"),
        )

    def _surroundings(self) -> dict[str, str]:
        """Return what a part inherits; another shell may differ in it without calling for a restart."""
        kept = {k: v for k, v in self.inherited.items() if not k.startswith(FOREIGN)}
        search = kept.get("PYTHONPATH")
        local = ",".join(filter(None, (kept.get("no_proxy"), LOOPBACK, "localhost")))
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}",
            # The library of this checkout, installed or not.
            "PYTHONPATH": f"{self.repository}:{search}" if search else str(self.repository),
            "no_proxy": local,
            "NO_PROXY": local,
        }

    def _s3_env(self, port: int) -> dict[str, str]:
        return {
            **CREDENTIALS,
            "AWS_ENDPOINT_URL_S3": url(port),
            "MLFLOW_S3_ENDPOINT_URL": url(port),
        }


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
