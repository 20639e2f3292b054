"""The ``quality.yaml`` of the local stack: the real ports instead of the example's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from quality_lib.adapters.private_files import write_private

ENGINE_ARGS = (
    *("--max-model-len", "2048"),
    "--enforce-eager",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
)
"""Quick to start, enough context for the golden set on the packaged model, and its tool calls."""

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
) -> None:
    """Write the configuration of one service that runs as a process of this machine."""
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
    if alert_connection is not None:
        data["alerts"] = {"http_conn_id": alert_connection}
    write_private(path, HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
