"""Recordings as Parquet: one file a unit, written in one step, so that a kill loses at most the unit under way.

Columns are the fields of ``recording.Head`` and ``recording.Row``; one row is one probe.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.faults.fault import Expected
from bench.matrix.recording import Check, Head, Row, Track
from quality_lib.errors import BadInput

HEAD_COLUMNS = tuple(field.name for field in dataclasses.fields(Head))
ROW_COLUMNS = tuple(field.name for field in dataclasses.fields(Row))


def schema() -> Any:
    """Return the columns with their types."""
    import pyarrow as pa

    ints, floats = pa.list_(pa.int32()), pa.list_(pa.float64())
    types: dict[str, Any] = {
        "start": pa.int32(), "is_gross": pa.bool_(), "number": pa.int32(), "seed": pa.int64(),
        "block": pa.int32(), "load": pa.int32(), "repeat": pa.int32(), "seconds": pa.float64(),
        "share": pa.float64(), "attempt": pa.int32(), "token_ids": ints, "logprobs": floats,
        "argmax_ids": ints, "gaps": floats, "top_ids": ints, "top_logprobs": floats,
        "replay_logprobs": floats, "replay_ranks": ints, "prompt_tokens": pa.int32(),
        "tokens_in": pa.int32(), "tokens_out": pa.int32(),
    }  # fmt: skip
    return pa.schema([
        (name, types.get(name, pa.string())) for name in (*HEAD_COLUMNS, *ROW_COLUMNS)
    ])


def write_checks(file: Path, checks: Sequence[Check]) -> None:
    """Write some checks; the file is there whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {name: [] for name in (*HEAD_COLUMNS, *ROW_COLUMNS)}
    for check in checks:
        for row in check.rows:
            for name in HEAD_COLUMNS:
                columns[name].append(getattr(check.head, name))
            for name in ROW_COLUMNS:
                value = getattr(row, name)
                columns[name].append(list(value) if isinstance(value, tuple) else value)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.partial")
    pq.write_table(pa.table(columns, schema=schema()), temporary, compression="zstd")
    temporary.replace(file)


def read_checks(folder: Path) -> list[Check]:
    """Return every recorded check, in the order of the file names.

    Raises:
        BadInput: nothing was recorded, or a file is no recording.
    """
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise BadInput("holds no recordings", file=folder, fix="record first: make bench-matrix")
    return [check for file in files for check in read_file(file)]


def read_file(file: Path) -> list[Check]:
    """Return the checks of one file, in their order.

    Raises:
        BadInput: it is no recording of this version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
        missing = set(schema().names) - set(table.column_names)
        if missing:
            raise BadInput(f"lacks the columns {', '.join(sorted(missing))}", file=file)
        return list(_checks(table.to_pylist()))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadInput(f"is no recording: {error}", file=file) from error


def _checks(rows: Iterable[dict[str, Any]]) -> Iterator[Check]:
    head: Head | None = None
    held: list[Row] = []
    for row in rows:
        own = Head(**{
            **{name: row[name] for name in HEAD_COLUMNS},
            "track": Track(row["track"]),
            "expected": Expected(row["expected"]),
        })
        if head is not None and own != head:
            yield Check(head, tuple(held))
            held = []
        head = own
        held.append(Row(**{name: _plain(row[name]) for name in ROW_COLUMNS}))
    if head is not None:
        yield Check(head, tuple(held))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
