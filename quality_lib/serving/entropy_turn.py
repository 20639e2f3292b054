"""Which of several API servers tells what their engines have counted."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import psutil

from quality_lib.serving.entropy_layout import share_folder

SUFFIX = ".telling"


class EntropyTurn:
    """Held by one process per server; when that process ends, the next that asks has it."""

    def __init__(self, server: int, folder: Path | None = None) -> None:
        """``server``: the process that all API servers of one server descend from."""
        self._server = server
        self._folder = folder
        self._held: int | None = None

    def is_ours(self) -> bool:
        """Return whether this process tells; it does when nobody can be asked."""
        if self._held is not None:
            return True
        try:
            folder = self._folder or share_folder()
            _remove_stale(folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            held = os.open(folder / f"{self._server}{SUFFIX}", flags, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return False
        self._held = held
        return True

    def close(self) -> None:
        """Let another process tell."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _remove_stale(folder: Path) -> None:
    for file in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError, ValueError):
            if not psutil.pid_exists(int(file.stem)):
                file.unlink(missing_ok=True)
