"""Recordings of faults: a folder of Parquet files with one row for each probe of each check.

Read are the columns ``case_id``, ``channel``, ``fault`` (``healthy``: none), ``track``, ``logprobs``, and, where
there is one, ``expected``: rows that call for silence belong to controls and are no fault. Further columns and
channels are passed over. ``bench/matrix`` writes such files; any other tool may.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from quality_lib.drift.reading import SCORED
from quality_lib.errors import BadInput
from quality_lib.golden.recorded_faults import (
    HEALTHY,
    LEAST_HEALTHY,
    FaultZ,
    RecordedScore,
    fault_z,
    healthy_scores,
)

TEXTS = ("case_id", "channel", "fault", "track")
SCORES, EXPECTED, SILENT = "logprobs", "expected", "silent"
ROWS = 4096
"""Unpacked at once."""
_FIX = "name a folder of recordings as 'python -m bench.matrix record' makes them"


def read_faults(folder: Path, case_ids: Collection[str]) -> FaultZ:
    """Return how far the recorded faults moved each of some cases, in healthy deviations.

    The files are read twice: what health is must be known before a fault is held against it.

    Raises:
        BadInput: no such folder, a file that cannot be read (names it, and the column), or nothing in
            it that can be used: no fault, no healthy checks beside it, no case of ``case_ids``.
    """
    files = _files(folder)
    seen: set[str] = set()
    health = healthy_scores(_rows(files, is_healthy=True, seen=seen))
    found = fault_z(health, _rows(files, is_healthy=False, seen=seen))
    names = seen - {HEALTHY}
    if not names:
        raise BadInput("holds no fault, only healthy checks", file=folder, field="fault", fix=_FIX)
    if not found:
        raise BadInput(
            f"holds {len(names)} faults, and not {LEAST_HEALTHY} healthy scores of any answer on their "
            "track: nobody can say what is healthy there",
            file=folder,
            field="fault",
            fix=f"record healthy checks beside them, with the fault '{HEALTHY}', and scored channels",
        )
    known = {
        fault: own
        for fault, cases in found.items()
        if (own := {case: z for case, z in cases.items() if case in case_ids})
    }
    if not known:
        raise BadInput(
            "holds no case of the baseline's golden set",
            file=folder,
            field="case_id",
            fix="record the faults with the cases of that set",
        )
    return known


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadInput("is no folder", file=folder, fix=_FIX)
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise BadInput("holds no *.parquet file", file=folder, fix=_FIX)
    return files


def _rows(files: Collection[Path], *, is_healthy: bool, seen: set[str]) -> Iterator[RecordedScore]:
    """Give the scored rows of health or of the faults; ``seen`` collects the names of all."""
    import pyarrow as pa

    for file in files:
        try:
            for batch in _batches(file):
                seen.update(batch["fault"].unique().to_pylist())
                for row in _wanted(batch, is_healthy).to_pylist():
                    # What has no scores was refused or lost: facts and repeats deal with that.
                    if row[SCORES]:
                        texts = {name: row[name] for name in TEXTS}
                        yield RecordedScore(**texts, logprobs=tuple(row[SCORES]))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadInput(f"is no readable Parquet file: {error}", file=file, fix=_FIX) from error


def _batches(file: Path) -> Iterator[Any]:
    """Give the rows of a file but for those of controls."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as table:
        names = table.schema_arrow.names
        _refuse_columns(file, table.schema_arrow)
        columns = [*TEXTS, SCORES, *([EXPECTED] if EXPECTED in names else [])]
        for batch in table.iter_batches(batch_size=ROWS, columns=columns):
            for name in TEXTS:
                if batch[name].null_count:
                    raise BadInput("has a row without a value", file=file, field=name)
            if EXPECTED in names:
                is_silent = pc.fill_null(pc.equal(batch[EXPECTED], SILENT), fill_value=False)
                is_fault = pc.not_equal(batch["fault"], HEALTHY)
                batch = batch.filter(pc.invert(pc.and_(is_silent, is_fault)))  # noqa: PLW2901
            yield batch


def _wanted(batch: Any, is_healthy: bool) -> Any:
    """Return the rows of scored channels of health, or of the faults."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_scored = pc.is_in(batch["channel"], value_set=pa.array(sorted(SCORED)))
    of_health = pc.equal(batch["fault"], HEALTHY)
    return batch.filter(pc.and_(is_scored, of_health if is_healthy else pc.invert(of_health)))


def _refuse_columns(file: Path, schema: Any) -> None:
    import pyarrow as pa

    for name in (*TEXTS, SCORES):
        if name not in schema.names:
            raise BadInput(
                f"has no such column; there are {', '.join(schema.names)}",
                file=file,
                field=name,
                fix=_FIX,
            )
        kind = schema.field(name).type
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        good = is_list and pa.types.is_floating(kind.value_type)
        if name in TEXTS:
            good = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not good:
            wanted = "texts" if name in TEXTS else "lists of numbers"
            raise BadInput(f"holds {kind} instead of {wanted}", file=file, field=name, fix=_FIX)
