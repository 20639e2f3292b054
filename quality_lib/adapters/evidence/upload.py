"""Takes evidence off the machine: to a bucket or folder of the service, else to MLflow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from quality_lib.adapters.logs.s3 import s3_client
from quality_lib.errors import OutsideFailure
from quality_lib.rollout.evidence_pack import EvidencePack
from quality_lib.rollout.ports import IncidentStore


def upload(
    pack: EvidencePack, store: IncidentStore, to: str | None = None, client: Any = None
) -> EvidencePack:
    """Upload the archive once more or for the first time; the pack then names the place.

    ``to`` is ``s3://bucket/prefix`` or a folder; ``None``: beside the incident in its store. The name
    is the same every time, so uploading again replaces the same bytes.

    Raises:
        OutsideFailure: the place does not take it; the archive stays on the machine.
    """
    name = f"evidence/{pack.archive.name}"
    if to is None:
        url = store.publish(pack.incident_id, {name: pack.archive}, {})
        return replace(
            pack, uri=f"{url.partition('/artifacts/')[0]}/artifacts/{name}" if url else ""
        )
    place = f"{to.rstrip('/')}/{pack.service}/{pack.incident_id}/{pack.archive.name}"
    if to.startswith("s3://"):
        _to_bucket(pack.archive, place, client)
    else:
        _to_folder(pack.archive, Path(place))
    return replace(pack, uri=place)


def _to_bucket(archive: Path, place: str, client: Any) -> None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = place.removeprefix("s3://").partition("/")
    try:
        (client or s3_client()).upload_file(str(archive), bucket, key)
    except (BotoCoreError, ClientError, S3UploadFailedError, OSError) as error:
        # The library's own message may hold addresses with keys.
        code = getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)
        raise OutsideFailure(
            f"the evidence cannot be uploaded to {place} ({code}); it stays at {archive}"
        ) from error


def _to_folder(archive: Path, place: Path) -> None:
    draft = place.with_name(f".{place.name}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(archive, draft)
        draft.chmod(0o600)
        draft.replace(place)
    except OSError as error:
        raise OutsideFailure(
            f"the evidence cannot be copied to {place} ({error.strerror}); it stays at {archive}"
        ) from error
