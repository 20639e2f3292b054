"""The commit that a folder is checked out at."""

from __future__ import annotations

import subprocess
from pathlib import Path

TIMEOUT_S = 10


def git_commit(folder: Path) -> str | None:
    """Return the commit, with ``+changes`` when files differ from it; ``None`` outside a checkout."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "-uno") else commit


def _git(folder: Path, *args: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # no git here: the commit is simply not known
    return done.stdout.strip() if done.returncode == 0 else ""
