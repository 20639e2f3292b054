"""Judged rows as Parquet, masked: for whoever wants to look beyond the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from quality_lib.errors import OutsideFailure
from quality_lib.scoring.worst import ShownRow
from quality_lib.serving.shipping import cause_of

BATCH_ROWS = 500


class RowWriter:
    """Appends rows to one Parquet file; it has its name only when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._writer: Any = None
        self._rows: list[dict[str, Any]] = []

    def add(self, row: ShownRow, weight: float) -> None:
        """Append one row; memory holds at most ``BATCH_ROWS`` of them."""
        self._rows.append({
            "id": row.id,
            "started_at": row.started_at,
            "model": row.model,
            "instance": row.instance,
            "snapshot_id": row.snapshot_id,
            "stratum": row.stratum,
            "weight": weight,
            "outcome": row.outcome.value,
            "reasons": [r.code for r in row.reasons],
            "sentences": [r.sentence for r in row.reasons],
            "finish_reason": row.finish_reason,
            "params": row.params,
            "prompt": row.prompt,
            "text": row.text,
            "key": row.key,
        })
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Finish the file."""
        try:
            self._flush()
            self._writer.close()
            self._part.replace(self._path)
        except OSError as error:
            raise OutsideFailure(f"{self._path} cannot be written: {error}") from error

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = ("id", "started_at", "model", "instance", "snapshot_id", "stratum")
        schema = pa.schema([
            *((name, pa.string()) for name in texts),
            ("weight", pa.float64()),
            ("outcome", pa.string()),
            ("reasons", pa.list_(pa.string())),
            ("sentences", pa.list_(pa.string())),
            *((name, pa.string()) for name in ("finish_reason", "params", "prompt", "text", "key")),
        ])
        try:
            if self._writer is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._writer = pq.ParquetWriter(self._part, schema, compression="zstd")
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=schema))
        except OSError as error:
            raise OutsideFailure(f"{self._path} cannot be written: {error}") from error
        self._rows = []


def keep_rows(files: Sequence[Path], uri: str, folders: Iterable[str]) -> str:
    """Copy row files below ``uri`` (``s3://bucket/prefix`` or a folder) and return where they lie.

    The same score goes to the same names, so that doing it twice keeps it once.

    Raises:
        OutsideFailure: the store does not take them; the files stay where they are.
    """
    below = "/".join(folders)
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        _to_s3(files, parts.netloc, f"{parts.path.strip('/')}/{below}".strip("/"))
    else:
        _to_folder(files, Path(uri.removeprefix("file://")) / below)
    return f"{uri.rstrip('/')}/{below}"


def _to_s3(files: Sequence[Path], bucket: str, prefix: str) -> None:
    import boto3
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("s3")
        for file in files:
            client.upload_file(str(file), bucket, f"{prefix}/{file.name}")
    except (BotoCoreError, ClientError, S3UploadFailedError, OSError) as error:
        # Not the library's own message, which may hold addresses and keys.
        raise OutsideFailure(
            f"s3://{bucket}/{prefix} does not take the rows: {cause_of(_origin(error))}"
        ) from error


def _origin(error: Exception) -> Exception:
    """Return what S3 said; an upload's failure wraps it and holds its words alone."""
    cause = error.__cause__ or error.__context__
    return cause if isinstance(cause, Exception) and hasattr(cause, "response") else error


def _to_folder(files: Sequence[Path], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            part = folder / f"{file.name}.part"
            part.write_bytes(file.read_bytes())
            part.replace(folder / file.name)
    except OSError as error:
        raise OutsideFailure(f"{folder} does not take the rows: {error}") from error
