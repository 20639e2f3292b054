"""What a task needs of ``quality.yaml`` and of its run. Read inside tasks only, never while parsing."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from quality_lib.settings import Settings

ALL_SERVICES = "all"
QUEUE_ENV = "QUALITY_GPU_QUEUE"
_USUAL_RUN_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,120}")


def gpu_queue() -> str | None:
    """Return the worker queue of GPU tasks: ``$QUALITY_GPU_QUEUE``, else Airflow's default queue.

    The one setting that is read while parsing: a task's queue is part of its declaration.
    """
    return os.environ.get(QUEUE_ENV) or None  # noqa: TID251


def config_file() -> Path:
    """Return the configuration file: ``$QUALITY_CONFIG``, else ``quality.yaml`` in the working folder."""
    from quality_lib.settings import config_path

    return config_path(None).absolute()


def settings() -> Settings:
    """Read the configuration; what is wrong with it fails the task at once, retries change nothing."""
    from quality_lib.errors import BadInput
    from quality_lib.settings import load

    try:
        return load(config_file())
    except BadInput as error:
        raise AirflowFailException(str(error)) from error


def chosen_services(wanted: str) -> list[str]:
    """Return the names of the services that a run is for: one, or all of them."""
    from quality_lib.errors import BadInput

    known = settings()
    if wanted == ALL_SERVICES:
        return sorted(known.services)
    try:
        known.service(wanted)
    except BadInput as error:
        raise AirflowFailException(str(error)) from error
    return [wanted]


def run_folder(service: str, run_id: str, kind: str = "") -> Path:
    """Return the folder of a service's work in a DAG run: the same at every try, so that a retry resumes.

    ``kind`` keeps apart what different DAGs do in runs of the same name.
    """
    return settings().stores.work_dir / slug(service) / f"{kind}{slug(run_id)}"


def slug(name: str) -> str:
    """Return a readable file name for any string; unusual strings keep their difference as a hash."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:120]
    if _USUAL_RUN_ID.fullmatch(name):
        return readable or "run"
    return f"{readable[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")
