"""Reads the sample logs and shows rows shortly; shared by the tests of the formats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quality_lib.exchanges.reading import rows_of
from quality_lib.exchanges.row import BadLine, Dropped, Row, Scored
from quality_lib.exchanges.source import Reader, Source

LOGS = Path(__file__).parents[1] / "data" / "gateway_logs"
CHAT = Source("chat", frozenset({"chat"}))


def read(reader: Reader, content: bytes, key: str = "k") -> list[Row]:
    return list(rows_of([content], key, reader))


def scored(rows: Iterable[Row]) -> list[Scored]:
    return [row for row in rows if isinstance(row, Scored)]


def shown(row: Row) -> str:
    """Return what became of an entry: the exchange's id, the reason it was dropped, or ``bad``."""
    if isinstance(row, BadLine):
        return "bad"
    return row.reason.value if isinstance(row, Dropped) else row.exchange.id
