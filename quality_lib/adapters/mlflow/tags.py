"""A snapshot as the tags of an MLflow version; big or long things are in its files instead."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.snapshots.manifest import FileRecord, ImageRecord, Manifest
from quality_lib.snapshots.ports import Health, SnapshotEntry

T_ID = "snapshot.id"
T_SCHEMA = "snapshot.schema"
T_SERVICE = "service"
T_FILES = "snapshot.files"
T_MODEL = "snapshot.logged_model"
T_CREATED_AT = "created.at"
T_CREATED_BY = "created.by"
T_HEALTH = "health"
T_HEALTH_AT = "health.at"
T_PINNED = "pinned"
T_WEIGHTS = "weights.sha256"
T_WEIGHTS_URI = "weights.uri"
T_IMAGE_REF = "image.ref"
T_IMAGE_DIGEST = "image.digest"
T_VLLM = "vllm.version"
T_ARGS = "vllm.args.sha256"
T_GOLDEN = "golden.digest"


def tags_of(
    service: str,
    manifest: Manifest,
    records: Mapping[str, FileRecord],
    health: Health,
    model_id: str,
    now: str,
) -> dict[str, str]:
    """Return the tags of a new snapshot; what is not known gets none."""
    serving = manifest.serving
    tags = {
        T_ID: manifest.snapshot_id,
        T_SCHEMA: str(manifest.schema),
        T_SERVICE: service,
        T_MODEL: model_id,
        T_FILES: json.dumps({name: [r.size, r.sha256] for name, r in sorted(records.items())}),
        T_CREATED_AT: manifest.created_at,
        T_CREATED_BY: manifest.created_by,
        T_HEALTH: health.value,
        T_HEALTH_AT: now,
        T_WEIGHTS: manifest.weights.root_sha256,
        T_WEIGHTS_URI: manifest.weights.uri,
        T_IMAGE_REF: manifest.image.ref,
        T_IMAGE_DIGEST: manifest.image.digest,
        T_VLLM: serving.vllm_version,
        T_ARGS: serving.args_sha256,
        T_GOLDEN: manifest.golden.digest if manifest.golden else None,
    }
    return {name: value for name, value in tags.items() if value}


def files_of(version: Any) -> dict[str, FileRecord]:
    """Return the recorded files of a snapshot by name."""
    try:
        listed = json.loads(version.tags.get(T_FILES, "{}"))
        return {name: FileRecord(name, int(size), str(sha)) for name, (size, sha) in listed.items()}
    except (ValueError, TypeError, AttributeError):
        raise BadInput(
            f"the tag '{T_FILES}' was altered",
            file=f"snapshot {version.tags[T_ID][:12]}",
            fix="do not use this snapshot; register the service again",
        ) from None


def entry_of(version: Any, aliases: Collection[str], url: str) -> SnapshotEntry:
    """Return what a list shows of a snapshot."""
    tags, number = version.tags, int(version.version)
    return SnapshotEntry(
        snapshot_id=tags[T_ID],
        service=tags[T_SERVICE],
        number=number,
        created_at=tags.get(T_CREATED_AT, ""),
        created_by=tags.get(T_CREATED_BY, ""),
        health=Health(tags.get(T_HEALTH, Health.PENDING.value)),
        health_at=tags.get(T_HEALTH_AT, ""),
        aliases=tuple(sorted(aliases)),
        weights_root_sha256=tags.get(T_WEIGHTS, ""),
        args_sha256=tags.get(T_ARGS),
        image=ImageRecord(tags.get(T_IMAGE_REF, ""), tags.get(T_IMAGE_DIGEST, "")),
        vllm_version=tags.get(T_VLLM),
        golden_digest=tags.get(T_GOLDEN),
        files=tuple(sorted(files_of(version))),
        url=url,
        is_pinned=T_PINNED in tags,
    )
