"""Ships finished log files to S3 in the background; a dead S3 costs nothing but a wait.

One process per folder ships for all (the holder of ``.shipping.lock``; when it dies the next takes
over), files of dead processes included. A file's key is made of its name, so sending it again after
a crash replaces the same object. It is removed here only after S3 has confirmed it.
"""

from __future__ import annotations

import fcntl
import gzip
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from quality_lib.serving.log_files import FinishedFile, LogFolder, taken

log = logging.getLogger(__name__)

LOCK = ".shipping.lock"
IDLE_S = 2.0
"""How often the folder is looked at while there is nothing to ship."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Pauses after failures double from the first to the longest, each times a random 0.5 to 1."""
CONNECT_S, READ_S = 3.0, 30.0
GZIP_LEVEL = 1
"""Text still shrinks to about a third, at a fifth of the default level's cost."""

Upload = Callable[[str, bytes], None]
"""Puts one object; raises whatever the client raises."""


class ShippingCounts(Protocol):
    """Told what was shipped."""

    def shipped(self, files: int, records: int, size: int) -> None:
        """Count what S3 has confirmed; ``size`` in bytes as sent."""

    def ship_failed(self, cause: str) -> None:
        """Count a failed try."""

    def waiting_to_ship(self, size: int, oldest_s: float) -> None:
        """Show how many bytes wait and since when."""


@dataclass(frozen=True)
class S3Place:
    """``s3://bucket/prefix``."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, address: str) -> Self:
        """Read the address; settings have checked it."""
        parts = urlsplit(address)
        return cls(parts.netloc, parts.path.strip("/"))


def s3_upload(place: S3Place) -> Upload:
    """Return what puts objects into the bucket.

    Endpoint, region and credentials come from where boto3 looks for them (``AWS_ENDPOINT_URL``, …).
    """
    clients: list[Any] = []

    def put(key: str, content: bytes) -> None:
        import boto3
        from botocore.config import Config

        if not clients:
            # Our own pauses between tries, not boto3's on top of them.
            config = Config(
                connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": 1}
            )
            clients.append(boto3.session.Session().client("s3", config=config))
        clients[0].put_object(
            Bucket=place.bucket,
            Key=key,
            Body=content,
            ContentType="application/x-ndjson",
            ContentEncoding="gzip",
        )

    return put


class Shipper:
    """Ships one folder's finished files."""

    def __init__(
        self,
        folder: LogFolder,
        prefix: str,
        upload: Upload,
        counts: ShippingCounts,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,  # noqa: S311  it only spreads tries
    ) -> None:
        """Start nothing yet: see ``start`` and ``ship_once``."""
        self._folder = folder
        self._prefix = prefix
        self._upload = upload
        self._counts = counts
        self._monotonic = monotonic
        self._jitter = jitter
        self._lock_fd: int | None = None
        self._failures: dict[str, int] = {}
        self._tries_in_vain = 0
        self._trouble = ""
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name="exchange-shipping", daemon=True)

    def start(self) -> None:
        """Ship in a thread of its own until ``close``."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Try once more to ship everything, for a bounded time, and end the thread.

        What is left stays in the folder; the next process ships it.
        """
        self._deadline = self._monotonic() + timeout_s
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if not self._thread.is_alive() and self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def ship_once(self) -> bool:
        """Ship every finished file, the oldest first; return False at the first that fails.

        Does nothing while another process ships.
        """
        if not self._is_ours():
            self._counts.waiting_to_ship(0, 0.0)
            return True
        files = self._folder.finished()
        self._show(files)
        # A file that was refused goes last, so that it cannot hold up the others.
        files.sort(key=lambda file: self._failures.get(file.path.name, 0))
        self._failures = {
            file.path.name: count
            for file in files
            if (count := self._failures.get(file.path.name, 0))
        }
        for number, file in enumerate(files):
            if self._monotonic() >= self._deadline:
                return False
            if not self._ship(file):
                return False
            self._show(files[number + 1 :])
        return True

    def pause_s(self) -> float:
        """Return how long to wait before the next try."""
        if not self._tries_in_vain:
            return IDLE_S
        longest = min(FIRST_PAUSE_S * 2 ** (self._tries_in_vain - 1), LONGEST_PAUSE_S)
        return longest * (0.5 + self._jitter() / 2)

    def _run(self) -> None:
        while True:
            is_last = self._stop.is_set()
            self._tried()
            if is_last:
                return
            self._stop.wait(self.pause_s())

    def _tried(self) -> None:
        try:
            self.ship_once()
        except Exception as error:  # noqa: BLE001  the thread must outlive any trouble
            self._fail(error)

    def _ship(self, file: FinishedFile) -> bool:
        with taken(file.path) as fd:
            if fd is None:
                return True  # dropped in between
            try:
                content = gzip.compress(_content(fd), GZIP_LEVEL, mtime=0)
                self._upload(file.name.object_key(self._prefix), content)
                file.path.unlink()
            except Exception as error:  # noqa: BLE001  clients raise many things
                self._failures[file.path.name] = self._failures.get(file.path.name, 0) + 1
                self._fail(error)
                return False
        self._counts.shipped(1, file.records, len(content))
        self._failures.pop(file.path.name, None)
        if self._tries_in_vain:
            log.warning("exchange logs are shipped again")
        self._tries_in_vain, self._trouble = 0, ""
        return True

    def _fail(self, error: Exception) -> None:
        self._tries_in_vain += 1
        cause = cause_of(error)
        self._counts.ship_failed(cause)
        if cause != self._trouble:
            self._trouble = cause
            # Only the kind of the error: messages quote addresses and key ids.
            log.warning("exchange logs cannot be shipped (%s); they wait in the folder", cause)

    def _show(self, files: list[FinishedFile]) -> None:
        oldest = min((file.name.started.timestamp() for file in files), default=None)
        age = max(0.0, self._folder.now() - oldest) if oldest is not None else 0.0
        self._counts.waiting_to_ship(sum(file.size for file in files), age)

    def _is_ours(self) -> bool:
        if self._lock_fd is not None:
            if os.fstat(self._lock_fd).st_nlink:
                return True
            # The folder was removed and made anew.
            os.close(self._lock_fd)
            self._lock_fd = None
        try:
            fd = os.open(self._folder.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return False  # no folder yet
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._lock_fd = fd
        return True


def cause_of(error: Exception) -> str:
    """Return a short name of what went wrong that holds no secret, such as ``AccessDenied``."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        code = str(response.get("Error", {}).get("Code", ""))
        if code.isalnum() and len(code) <= 40:
            return code
    return type(error).__name__


def _content(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read()
