"""Objects in a bucket or folder that are old enough to be removed: evidence, shipped logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from quality_lib.adapters.logs.s3 import s3_client
from quality_lib.adapters.logs.store import store_at
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.log_name import LogName
from quality_lib.exchanges.ports import LogObject

BATCH = 1000
"""S3 takes so many names in one request."""


def is_exchange_log(key: str) -> bool:
    """Return whether an object is a finished exchange log of our own."""
    name = key.rpartition("/")[2].removesuffix(".gz")
    found = LogName.parse(name)
    return found is not None and found.records is not None


def is_evidence(key: str) -> bool:
    """Return whether an object is an archive of evidence of our own."""
    name = key.rpartition("/")[2]
    return name.startswith("evidence-") and name.endswith(".tar.gz")


def objects_at(
    place: str, prefix: str, is_ours: Callable[[str], bool]
) -> Iterator[tuple[str, LogObject]]:
    """Give the addresses of our own objects below a place, and what is known of them.

    A folder that does not exist has none.
    """
    if not place.startswith("s3://") and not Path(place).is_dir():
        return
    for found in store_at(place).objects(prefix):
        if is_ours(found.key):
            yield f"{place.rstrip('/')}/{found.key}", found


def remove_objects(addresses: Sequence[str], client: Any = None) -> None:
    """Remove objects by address; one that is gone already is no error.

    Raises:
        OutsideFailure: some could not be removed; names the first.
    """
    buckets: dict[str, list[str]] = {}
    for address in addresses:
        if address.startswith("s3://"):
            bucket, _, key = address.removeprefix("s3://").partition("/")
            if not bucket or not key:
                raise BadInput(f"{address!r} names no object")
            buckets.setdefault(bucket, []).append(key)
            continue
        try:
            Path(address).unlink(missing_ok=True)
        except OSError as error:
            raise OutsideFailure(f"{address} cannot be removed: {error.strerror}") from error
    for bucket, keys in buckets.items():
        for start in range(0, len(keys), BATCH):
            _remove_batch(client or s3_client(), bucket, keys[start : start + BATCH])


def _remove_batch(client: Any, bucket: str, keys: Sequence[str]) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client.delete_objects(
            Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
        )
    except (BotoCoreError, ClientError) as error:
        code = getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)
        raise OutsideFailure(f"objects of s3://{bucket} cannot be removed ({code})") from error
    if failed := answer.get("Errors"):
        first = failed[0]
        raise OutsideFailure(
            f"s3://{bucket}/{first.get('Key')} cannot be removed ({first.get('Code')}), "
            f"and {len(failed) - 1} more"
        )
