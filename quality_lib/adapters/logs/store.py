"""Opens the place that a service's logs lie in."""

from __future__ import annotations

from pathlib import Path

from quality_lib.adapters.logs.local import LocalLogs
from quality_lib.adapters.logs.s3 import S3Logs
from quality_lib.errors import BadInput
from quality_lib.exchanges.ports import LogStore
from quality_lib.settings import ServiceSettings


def log_store(service: ServiceSettings) -> LogStore:
    """Return the store of the service's logs: ``logs.source``, else where its own records go.

    Raises:
        BadInput: when the service has no log.
    """
    source = service.log_source
    if source is None:
        raise BadInput(
            "the service has no log to score",
            field="logs.source",
            fix="name a folder or s3://bucket/prefix, or let the server record (gates.log)",
        )
    return store_at(source)


def store_at(source: str) -> LogStore:
    """Return the store at ``s3://bucket/prefix`` or in a folder."""
    if source.startswith("s3://"):
        bucket, _, prefix = source.removeprefix("s3://").partition("/")
        if not bucket:
            raise BadInput(f"{source!r} names no bucket", fix="write s3://bucket/prefix")
        return S3Logs(bucket, prefix)
    if "://" in source:
        raise BadInput(f"{source!r} cannot be read", fix="use a folder or s3://bucket/prefix")
    return LocalLogs(Path(source))
