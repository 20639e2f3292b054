"""What reading logs needs from outside. Pure: protocols and their values only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from quality_lib.errors import OutsideFailure


class ObjectGone(OutsideFailure):
    """An object that was listed is not there any more."""


@dataclass(frozen=True)
class LogObject:
    """One object or file of a log."""

    key: str
    """Its name below the store's root, with ``/`` between folders."""
    size: int
    """Bytes as it lies in the store."""
    changed_at: datetime
    """When the store received it, in UTC."""


class LogStore(Protocol):
    """A place that logs were written to: an S3 prefix or a folder. Read only."""

    def objects(self, prefix: str = "") -> Iterator[LogObject]:
        """Give the objects whose key begins with ``prefix``, in ascending order of key, page by page.

        An unknown prefix gives nothing.

        Raises:
            OutsideFailure: when the store cannot be reached or refuses.
        """

    def blocks(self, key: str) -> Iterator[bytes]:
        """Give the content in blocks of at most 1 MiB.

        Raises:
            BadInput: when the key would leave the root.
            ObjectGone: when there is no such object (any more).
            OutsideFailure: when the store cannot be reached or refuses.
        """
