"""A journal of JSON lines: each is kept before the next one, and a kill loses at most the line being written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from quality_lib.errors import BadInput, OutsideFailure

Entry = TypeVar("Entry")


class LineJournal(Generic[Entry]):
    """Entries in a file, one JSON line each, in the order in which they were made."""

    def __init__(
        self,
        path: Path,
        write: Callable[[Entry], Any],
        read: Callable[[Any], Entry],
        *,
        again: str,
        survives_power_loss: bool = True,
    ) -> None:
        """Read what is there and open the file for more.

        ``write`` and ``read`` turn an entry into JSON values and back. ``again`` is the advice after a full
        disk. With ``survives_power_loss`` each line waits for the disk, else only for the operating system.

        Raises:
            BadInput: a whole line cannot be read; names it.
            OutsideFailure: the disk refuses.
        """
        self.path = path
        self._write = write
        self._again = again
        self._is_synced = survives_power_loss
        self.entries = read_lines(path, read)
        try:
            self._file: BinaryIO = path.open("ab")
        except OSError as error:
            raise OutsideFailure(f"{path} cannot be written: {error}") from error

    def append(self, entry: Entry) -> None:
        """Keep one entry; after this returns it survives a kill.

        Raises:
            OutsideFailure: the disk refuses.
        """
        line = json.dumps(self._write(entry), ensure_ascii=False) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
            if self._is_synced:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise OutsideFailure(
                f"{self.path} cannot be written: {error}. Free some space and {self._again}"
            ) from error
        self.entries.append(entry)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


def read_lines(path: Path, read: Callable[[Any], Entry]) -> list[Entry]:
    """Return the entries of a journal; none without the file. A line cut by a kill is taken away.

    Raises:
        BadInput: a whole line cannot be read; names it.
        OutsideFailure: the file cannot be opened.
    """
    try:
        # Not splitlines(): a text may hold other line separators of Unicode.
        data = path.read_bytes()
        *lines, tail = data.split(b"\n")
        if tail:
            os.truncate(path, len(data) - len(tail))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be read: {error}") from error
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(read(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"cannot be read: {error!r}",
                file=path,
                line=number,
                fix="remove that line and run the same command again",
            ) from error
    return entries
