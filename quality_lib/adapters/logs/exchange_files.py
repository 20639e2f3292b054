"""Exchanges in files: JSON lines, a JSON array, gzip of either, Parquet, or standard input.

Everything is read as a stream: memory holds one record, or one batch of Parquet rows.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from quality_lib.adapters.logs.parquet_entries import parquet_entries
from quality_lib.errors import BadInput
from quality_lib.exchanges.entries import GZIP, MIB, PARQUET, Broken, Entry, entries
from quality_lib.exchanges.exchange import Exchange
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.parse import parse_exchange

STDIN = "-"
MAX_LINE_BYTES = 64 * MIB
"""A longer line is no record that a server wrote."""
_LIMITS = ReadLimits(max_object_mb=2**30, max_entry_mb=MAX_LINE_BYTES / MIB)
"""A file that a person names may be of any size; a record may not."""
_BOM = b"\xef\xbb\xbf"
_UNREADABLE = (OSError, EOFError, zlib.error)
_JSON_COLUMNS = (
    "request", "response", "usage", "params", "messages", "tools", "tool_calls", "response_format",
    "logprobs", "recent_texts",
)  # fmt: skip


@dataclass(frozen=True)
class BadLine:
    """A line that holds no exchange; it is told and counted, and the reading goes on."""

    line: int
    error: BadInput
    id: str = ""
    """The record's id where the line could be decoded so far."""


def read_exchanges(source: Path | str) -> Generator[Exchange | BadLine, None, None]:
    """Read every record in order; the kind of file is told by its first bytes, not by its name.

    Raises:
        BadInput: when the file cannot be opened or is no file at all.
    """
    if str(source) == STDIN:
        stdin: Any = sys.stdin.buffer
        # A pipe can be peeked at; what stands in for one need not.
        yield from _records(stdin if hasattr(stdin, "peek") else io.BufferedReader(stdin), "stdin")
        return
    path = Path(source)
    if path.is_dir():
        raise BadInput("is a folder", file=path, fix="name a .jsonl, .jsonl.gz or .parquet file")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise BadInput(
            "does not exist", file=path, fix="name a file of exchanges, or - for standard input"
        ) from None
    except OSError as error:
        raise BadInput(
            f"cannot be read: {error.strerror or error}", file=path, fix="check path and rights"
        ) from error
    with file:
        yield from _records(file, str(source))


def _records(stream: Any, name: str) -> Iterator[Exchange | BadLine]:
    head = bytes(stream.peek(len(PARQUET)))
    if head.startswith(PARQUET):
        yield from _from_entries(parquet_entries(_blocks(stream), _LIMITS), name)
        return
    if head.startswith(GZIP):
        stream = gzip.GzipFile(fileobj=stream)
    try:
        head = bytes(stream.peek(4096))
    except _UNREADABLE as error:
        yield _bad(name, 1, f"cannot be read: {error}", "copy the file again")
        return
    if _is_lines(head.removeprefix(_BOM).lstrip()):
        yield from _from_lines(cast(BinaryIO, stream), name)
    else:
        yield from _from_entries(entries(_blocks(stream), _LIMITS), name)


def _is_lines(head: bytes) -> bool:
    """Tell JSON lines from an array, and from an object that is spread over many lines."""
    return not head.startswith(b"[") and head.partition(b"\n")[0].strip() != b"{"


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(MIB):
        yield block


def _from_lines(stream: BinaryIO, name: str) -> Iterator[Exchange | BadLine]:
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
            is_long = len(line) > MAX_LINE_BYTES
            if is_long:
                _skip_line(stream, line)
        except _UNREADABLE as error:
            yield _bad(name, number, f"cannot be read any further: {error}", "copy the file again")
            return
        if not line:
            return
        if is_long:
            problem = f"is longer than {MAX_LINE_BYTES // MIB} MiB"
            yield _bad(name, number, problem, "split the record")
            continue
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip():
            yield _decoded(line, name, number)


def _skip_line(stream: BinaryIO, part: bytes) -> None:
    """Read to the line's end without keeping it."""
    while part and not part.endswith(b"\n"):
        part = stream.readline(MIB)


def _decoded(line: bytes, name: str, number: int) -> Exchange | BadLine:
    try:
        data = json.loads(line)
    except UnicodeDecodeError:
        return _bad(name, number, "is not UTF-8", "save it with the encoding UTF-8")
    except RecursionError:
        return _bad(name, number, "is nested too deeply", "write a flat record")
    except ValueError as error:
        return _bad(name, number, f"no JSON: {error}", "write one JSON object per line")
    return _parsed(data, name, number)


def _parsed(data: Any, name: str, number: int) -> Exchange | BadLine:
    try:
        return parse_exchange(data, file=name, line=number)
    except BadInput as error:
        found = data.get("id") if isinstance(data, dict) else None
        return BadLine(number, error, str(found) if isinstance(found, str | int) else "")


def _from_entries(found: Iterator[Entry | Broken], name: str) -> Iterator[Exchange | BadLine]:
    line = 1
    try:
        for entry in found:
            line = entry.line
            if isinstance(entry, Broken):
                yield _bad(name, line, entry.problem, "write one JSON object per record")
            else:
                yield _parsed(_unpacked(entry.value), name, line)
    except _UNREADABLE as error:
        yield _bad(name, line, f"cannot be read any further: {error}", "copy the file again")


def _unpacked(value: Any) -> Any:
    """Undo what tables do to nested fields: JSON as a text, a null for every field that is absent."""
    if not isinstance(value, dict):
        return value
    record = {field: inner for field, inner in value.items() if inner is not None}
    for field in _JSON_COLUMNS:
        inner = record.get(field)
        if isinstance(inner, str) and inner[:1] in {"{", "["}:
            with contextlib.suppress(ValueError, RecursionError):
                record[field] = json.loads(inner)
        elif isinstance(inner, dict) and inner and all(v is None for v in inner.values()):
            del record[field]
    return record


def _bad(name: str, line: int, problem: str, fix: str) -> BadLine:
    return BadLine(line, BadInput(problem, file=name, line=line, fix=fix))
