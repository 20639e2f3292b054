"""The ``quality.yaml`` of the local stack: the real ports instead of the example's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from quality_lib.adapters.machine.private_files import write_private
from quality_lib.adapters.stack.s3_contents import BUCKET, CREDENTIALS
from quality_lib.settings import CONFIG_ENV, SERVICE_ENV

ENGINE_ARGS = (
    *("--max-model-len", "2048"),
    "--enforce-eager",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--middleware", "quality_lib.serving.guard.Guard"),
)
"""Quick to start, enough context for the golden set on the packaged model, its tool calls, and the
guard before it all."""

EXCHANGES = f"s3://{BUCKET}/exchanges"
"""Where the guarded server ships its records."""

ALERT_CONNECTION = "quality_alerts"
"""Airflow connection of the local stack's alerts."""

HEAD = "# Written by `quality stack up` for the local stack; it is written anew each time.\n"


def write_local_config(
    path: Path,
    *,
    service: str,
    endpoint: str,
    model: str,
    weights: Path,
    mlflow: str,
    work_dir: Path,
    engine_args: Sequence[str] = (),
    stable_hours: float = 24.0,
    alert_connection: str | None = None,
    cases: Path | None = None,
    repeats: int | None = None,
    exchange_log: Path | None = None,
    route: tuple[str, Path] | None = None,
    rollback: Mapping[str, Any] | None = None,
) -> None:
    """Write the configuration of one service that runs as a process of this machine.

    With ``exchange_log``, the folder that its guard records exchanges in on their way to S3. With
    ``route``, where its nginx listens and keeps its files; the endpoint is the address of that.
    """
    data: dict[str, Any] = {
        "services": {
            service: {
                "endpoint": endpoint,
                "model": model,
                "weights": str(weights),
                "engine": {"kind": "local", "args": list(engine_args)},
                "stable_hours": stable_hours,
            }
        },
        "stores": {"mlflow": mlflow, "work_dir": str(work_dir)},
    }
    golden = {"cases": str(cases) if cases else None, "repeats": repeats}
    if chosen := {name: value for name, value in golden.items() if value is not None}:
        data["services"][service]["golden"] = chosen
    if exchange_log is not None:
        log = {"folder": str(exchange_log), "ship_to": EXCHANGES, "max_file_s": 5}
        data["services"][service]["gates"] = {"log": log}
    if route is not None:
        listen, folder = route
        data["services"][service]["route"] = {
            "kind": "nginx",
            "listen": listen,
            "folder": str(folder),
        }
    if rollback is not None:
        data["services"][service]["rollback"] = dict(rollback)
    if alert_connection is not None:
        data["alerts"] = {"http_conn_id": alert_connection}
    write_private(path, HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def guard_env(config: Path, service: str, s3: str) -> dict[str, str]:
    """Return what a guarded server of the local stack needs to find its configuration and S3."""
    return {
        CONFIG_ENV: str(config),
        SERVICE_ENV: service,
        "AWS_ENDPOINT_URL_S3": s3,
        **CREDENTIALS,
    }
