"""From the bytes of one log object to rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quality_lib.exchanges.entries import Broken, Entry, entries
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import BadLine, Row
from quality_lib.exchanges.source import Reader


def rows_of(
    blocks: Iterable[bytes], key: str, reader: Reader, limits: ReadLimits | None = None
) -> Iterator[Row]:
    """Give the rows of an object; what cannot be understood is a ``BadLine``, never an exception."""
    return rows_of_entries(entries(blocks, limits), key, reader)


def rows_of_entries(found: Iterable[Entry | Broken], key: str, reader: Reader) -> Iterator[Row]:
    """Give the rows of entries that were read already."""
    for entry in found:
        if isinstance(entry, Broken):
            yield BadLine(key, entry.line, entry.problem)
            continue
        try:
            yield from reader(entry.value, key, entry.line)
        except Exception as error:  # noqa: BLE001  one strange entry must not end a window
            yield BadLine(key, entry.line, f"cannot be read: {type(error).__name__}")
