"""Recordings of faults for tests: the columns that the product reads, as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCORES = (-0.5, -1.0, -2.0)


def recorded(case: str, fault: str = "healthy", by: float = 0.0, **changed: Any) -> dict[str, Any]:
    """Return one row: the stored scores moved by so many nats."""
    row = {"case_id": case, "channel": "raw_scored", "fault": fault, "track": "noisy"}
    return {**row, "logprobs": [x - by for x in SCORES], **changed}


def write_recording(file: Path, rows: Sequence[Mapping[str, Any]], **types: Any) -> None:
    """Write rows; ``types`` replaces a column's type, None leaves the column out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = {name: pa.string() for name in ("case_id", "channel", "fault", "track", "expected")}
    schema = {**texts, "logprobs": pa.list_(pa.float64()), **types}
    columns = [(name, kind) for name, kind in schema.items() if kind is not None]
    pq.write_table(
        pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(columns)), file
    )
