"""Logs in a folder of this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.ports import LogObject, ObjectGone

BLOCK = 1 << 20


class LocalLogs:
    """A ``LogStore`` over a folder; links that lead out of it are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def __str__(self) -> str:
        return str(self._root)

    def objects(self, prefix: str = "") -> Iterator[LogObject]:
        """Give the files whose name begins with the prefix, in ascending order of name."""
        if _leaves(prefix):
            raise BadInput(f"the prefix {prefix!r} leaves the log folder {self._root}")
        if not self._root.is_dir():
            raise OutsideFailure(f"there is no log folder {self._root}, or it cannot be read")
        yield from self._walk("", prefix)

    def _walk(self, folder: str, prefix: str) -> Iterator[LogObject]:
        try:
            with os.scandir(self._root / folder) as found:
                # As S3 sorts: a folder by its name with the slash.
                entries = sorted((e.name + "/" * e.is_dir(follow_symlinks=False), e) for e in found)
        except FileNotFoundError:
            return
        except OSError as error:
            raise OutsideFailure(f"the log folder cannot be read: {error}") from error
        for name, entry in entries:
            key = folder + name
            if key.endswith("/"):
                if key.startswith(prefix) or prefix.startswith(key):
                    yield from self._walk(key, prefix)
            elif key.startswith(prefix) and (found_file := self._object(key, entry)):
                yield found_file

    def _object(self, key: str, entry: os.DirEntry[str]) -> LogObject | None:
        try:
            status = entry.stat()
            if not stat.S_ISREG(status.st_mode) or (entry.is_symlink() and self._outside(key)):
                return None
        except OSError:
            return None  # removed in between, or a link to nothing
        return LogObject(key, status.st_size, datetime.fromtimestamp(status.st_mtime, tz=UTC))

    def _outside(self, key: str) -> bool:
        return not (self._root / key).resolve().is_relative_to(self._root.resolve())

    def blocks(self, key: str) -> Iterator[bytes]:
        """Give the file's content."""
        if _leaves(key) or self._outside(key):
            raise BadInput(f"the name {key!r} leaves the log folder {self._root}")
        path = self._root / key
        try:
            if not path.is_file():
                raise FileNotFoundError(path)
            with path.open("rb") as file:
                while block := file.read(BLOCK):
                    yield block
        except FileNotFoundError as error:
            raise ObjectGone(f"{key} is not in the log folder {self._root} any more") from error
        except (OSError, ValueError) as error:
            raise OutsideFailure(f"{key} cannot be read: {error}") from error


def _leaves(name: str) -> bool:
    return name.startswith("/") or "\0" in name or ".." in name.split("/")
