"""Takes the JSON values out of a log object, whatever way they were laid out. Pure.

One value a line, one pretty-printed value, an array, values written one after the other without any
separator, packed with gzip or not: all are read by the same rule, "decode a value where one begins,
then look for the next". Memory is bounded by the longest entry, and what is broken costs itself only.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.log_limits import ReadLimits

MIB = 1 << 20
GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
_BETWEEN = re.compile(r"[\s,\[\]\ufeff\x1e]*")
"""What may stand between two values; brackets make the elements of an array entries of their own."""
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_LONGEST_LITERAL = 16
"""An error this near to the end of what was read may be a literal, number or escape cut in two."""
_DECODE = json.JSONDecoder().raw_decode


@dataclass(frozen=True)
class Entry:
    """One JSON value of an object."""

    line: int
    value: Any


@dataclass(frozen=True)
class Broken:
    """A place that holds no readable value."""

    line: int
    problem: str


def entries(blocks: Iterable[bytes], limits: ReadLimits | None = None) -> Iterator[Entry | Broken]:
    """Give every JSON value in order, and a ``Broken`` for each stretch that is none; never raise.

    Blank content has no entries. Line numbers are 1-based and count line feeds of the unpacked text.
    """
    limits = limits or ReadLimits()
    stop: list[str] = []
    text = _Text(_unpacked(blocks, int(limits.max_object_mb * MIB), stop))
    longest = int(limits.max_entry_mb * MIB)
    while text.to_next_value():
        yield text.take(longest)
    yield from (Broken(text.line, problem) for problem in stop)


def _unpacked(blocks: Iterable[bytes], most: int, stop: list[str]) -> Iterator[bytes]:
    """Unpack gzip where the content begins like it; put into ``stop`` why not all of it was read."""
    pieces = _with_whole_head(blocks)
    head = next(pieces, b"")
    if head.startswith(PARQUET):
        stop.append("is a Parquet file; its name must end with .parquet")
        return
    rest = _chain(head, pieces)
    total = 0
    for block in _gunzipped(rest, stop) if head.startswith(GZIP) else rest:
        total += len(block)
        if total > most:
            stop.append(
                f"is longer than max_object_mb ({most / MIB:g} MiB unpacked); the rest is unread"
            )
            return
        yield block


def _with_whole_head(blocks: Iterable[bytes]) -> Iterator[bytes]:
    head, whole = b"", False
    for block in blocks:
        if whole:
            yield block
            continue
        head += block
        if len(head) >= len(PARQUET):
            whole = True
            yield head
    if head and not whole:
        yield head


def _chain(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _gunzipped(blocks: Iterator[bytes], stop: list[str]) -> Iterator[bytes]:
    unpack, whole = zlib.decompressobj(wbits=31), True
    try:
        for block in blocks:
            # Padding of zeros may follow a member, and so may another member.
            packed = block.lstrip(b"\0") if whole else block
            while packed:
                yield unpack.decompress(packed, MIB)
                whole = unpack.eof
                if whole:
                    packed = unpack.unused_data.lstrip(b"\0")
                    unpack = zlib.decompressobj(wbits=31)
                else:
                    packed = unpack.unconsumed_tail
        if not whole:
            yield unpack.flush()
            whole = unpack.eof
    except zlib.error as error:
        stop.append(f"the gzip data is damaged: {error}")
        return
    if not whole:
        stop.append("the gzip data ends in the middle")


def _too_long(longest: int) -> str:
    return f"is longer than max_entry_mb ({longest / MIB:g} MiB)"


class _Text:
    """A window that slides over the decoded text; ``line`` is that of its position."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        # Bytes that are not UTF-8 become lone surrogates, which mark the entry that holds them.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self._ended = False
        self._has_strays = False
        """Whether bytes that are not UTF-8 were met."""
        self.line = 1

    def to_next_value(self) -> bool:
        """Move to where the next value begins; False when nothing follows."""
        while True:
            found = _BETWEEN.match(self._text, self._at)
            self._move(found.end() if found else self._at)
            if self._at < len(self._text):
                return True
            if not self._fill(MIB):
                return False

    def take(self, longest: int) -> Entry | Broken:
        """Decode the value here and move behind it; what cannot be decoded is moved over."""
        if self._text[self._at] != "{":
            return self._skip("is no JSON object", same_kind=False)
        while True:
            try:
                value, end = _DECODE(self._text, self._at)
            except json.JSONDecodeError as error:
                have = len(self._text) - self._at
                if not self._may_be_cut(error) or (
                    have <= longest and not self._fill(max(MIB, have))
                ):
                    return self._skip(
                        f"is no valid JSON: {error.msg} (column {self._column(error.pos)})"
                    )
                if have > longest:
                    return self._skip(_too_long(longest))
            except RecursionError:
                return self._skip("is nested too deeply")
            except ValueError as error:  # a number of thousands of digits
                return self._skip(f"is no valid JSON: {str(error).split(';')[0]}")
            else:
                if end - self._at > longest:
                    return self._skip(_too_long(longest))
                return self._entry(value, end)

    def _entry(self, value: Any, end: int) -> Entry | Broken:
        line, start = self.line, self._at
        self._move(end)
        if self._has_strays and _NOT_UTF8.search(self._text, start, end):
            return Broken(line, "is not UTF-8")
        return Entry(line, value)

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated string") or (
            error.pos >= len(self._text) - _LONGEST_LITERAL
        )

    def _column(self, position: int) -> int:
        return position - self._text.rfind("\n", 0, position)

    def _skip(self, problem: str, *, same_kind: bool = True) -> Broken:
        """Move to the next line that begins an object as far in as this one did, or to the end."""
        broken = Broken(self.line, problem)
        start = self._text.rfind("\n", 0, self._at) + 1
        before = self._text[start : self._at]
        indent = before if before.isspace() else ""
        mark = f"\n{indent}{{" if same_kind else "\n"
        self._move(self._at + 1)
        while True:
            found = self._text.find(mark, self._at)
            if found >= 0:
                self._move(found + 1)
                return broken
            # The mark itself may lie across the border of two blocks.
            self._move(max(self._at, len(self._text) - len(mark)))
            if not self._fill(MIB):
                self._move(len(self._text))
                return broken

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to

    def _fill(self, wanted: int) -> bool:
        """Read about ``wanted`` more bytes; False when there are none."""
        if self._ended:
            return False
        pieces, size = [], 0
        for block in self._blocks:
            pieces.append(self._decoder.decode(block))
            size += len(block)
            if size >= wanted:
                break
        else:
            self._ended = True
            pieces.append(self._decoder.decode(b"", final=True))
        # What lies before the line of the position is not needed any more.
        keep = max(self._text.rfind("\n", 0, self._at), self._at - 64, 0)
        fresh = "".join(pieces)
        if not self._has_strays and not fresh.isascii():
            self._has_strays = _NOT_UTF8.search(fresh) is not None
        self._text = self._text[keep:] + fresh
        self._at -= keep
        return bool(fresh)
