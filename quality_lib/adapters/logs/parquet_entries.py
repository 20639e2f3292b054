"""Takes rows out of a Parquet file, as Langfuse exports them by default."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from quality_lib.exchanges.entries import MIB, Broken, Entry
from quality_lib.exchanges.log_limits import ReadLimits

ROWS = 256
"""Rows unpacked at once."""


def parquet_entries(blocks: Iterable[bytes], limits: ReadLimits) -> Iterator[Entry | Broken]:
    """Give one entry per row; ``line`` is its number. A damaged file ends in a ``Broken``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    with tempfile.TemporaryFile() as file:
        size = 0
        for block in blocks:
            size += len(block)
            if size > limits.max_object_mb * MIB:
                yield Broken(1, f"is longer than max_object_mb ({limits.max_object_mb:g} MiB)")
                return
            file.write(block)
        file.seek(0)
        try:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=ROWS):
                for row in batch.to_pylist(maps_as_pydicts="lossy"):
                    number += 1
                    yield Entry(number, _plain(row))
        except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
            yield Broken(number + 1, f"is no readable Parquet file ({type(error).__name__})")


def _plain(value: Any) -> Any:
    """Turn what JSON does not know into what it does."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value
