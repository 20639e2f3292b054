"""The files of a snapshot on their way into MLflow, and the check that they still are the same."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.server import slug
from quality_lib.adapters.mlflow.tags import T_ID, T_SERVICE
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.snapshots.manifest import FileRecord, Manifest, root_hash
from quality_lib.snapshots.ports import BASELINE_FOLDER, MANIFEST_NAME, StoredSnapshot

MODEL_TYPE = "llm-serving-snapshot"


def stage(folder: Path, manifest: Manifest, files: Mapping[str, Path]) -> dict[str, FileRecord]:
    """Copy what is uploaded into one folder and hash the copies."""
    records: dict[str, FileRecord] = {}
    try:
        (folder / MANIFEST_NAME).write_text(manifest.to_canonical_json(), encoding="utf-8")
        for name, source in files.items():
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            content = copy.read_bytes()
            records[name] = FileRecord(name, len(content), hashlib.sha256(content).hexdigest())
    except FileNotFoundError as error:
        raise BadInput("does not exist", file=error.filename) from None
    except OSError as error:
        raise OutsideFailure(
            f"{error.filename or folder}: cannot be copied: {error.strerror}"
        ) from error
    return records


def upload(client: Any, experiment: str, service: str, snapshot_id: str, folder: str) -> str:
    """Upload a staged folder as a logged model and return its id; an earlier whole upload is kept."""
    finished = _finished_model(client, experiment, snapshot_id)
    if finished is not None:
        return finished
    model_id = str(
        client.create_logged_model(
            experiment,
            name=f"{slug(service)}-{snapshot_id[:12]}",
            model_type=MODEL_TYPE,
            tags={T_ID: snapshot_id, T_SERVICE: service},
        ).model_id
    )
    try:
        client.log_model_artifacts(model_id, folder)
        client.finalize_logged_model(model_id, "READY")
    except BaseException:
        # When even this fails it stays PENDING, which no reader takes either.
        with suppress(Exception):
            client.finalize_logged_model(model_id, "FAILED")
        raise
    return model_id


def delete_files(client: Any, model_id: str) -> None:
    """Delete the logged model that holds a snapshot's files; one that is gone already is no error."""
    from mlflow.exceptions import MlflowException

    try:
        client.delete_logged_model(model_id)
    except MlflowException as error:
        if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"}:
            raise


def check_baseline(snapshot: StoredSnapshot, records: Mapping[str, FileRecord]) -> None:
    """Tie the list of file hashes, which is a tag, to the manifest, which hashes to the id."""
    golden = snapshot.manifest.golden
    if golden is None:
        return
    parts = [
        FileRecord(name.removeprefix(BASELINE_FOLDER), record.size, record.sha256)
        for name, record in records.items()
        if name.startswith(BASELINE_FOLDER)
    ]
    if root_hash(parts) != golden.baseline_sha256:
        raise BadInput(
            "the list of its baseline's files was altered",
            file=f"snapshot {snapshot.snapshot_id[:12]}",
            fix="do not use this snapshot; register the service again",
        )


def _finished_model(client: Any, experiment: str, snapshot_id: str) -> str | None:
    """Return the files that an earlier try uploaded whole before it died, if any."""
    found = client.search_logged_models(
        [experiment], filter_string=f"tags.`{T_ID}` = '{snapshot_id}'"
    )
    return next((model.model_id for model in found if str(model.status.value) == "READY"), None)
