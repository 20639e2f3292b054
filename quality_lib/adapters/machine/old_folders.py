"""Folders below the working folder: which there are, how old, and how one is removed for good."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from quality_lib.errors import OutsideFailure

INCIDENTS = "incidents"
JOURNAL = "journal.json"
_GOING = ".removing-"
_OURS = ("run.json", "plan.json", "answers.jsonl", "result.json", "report.html", "score.json")
_OPEN = {"open", "rolling"}


@dataclass(frozen=True)
class OldFolder:
    """One folder that may be removed."""

    path: Path
    service: str
    changed: datetime | None
    held_by: str = ""
    """Why it must stay; empty: nothing holds it."""


def run_folders(work_dir: Path, names: dict[str, str]) -> Iterator[OldFolder]:
    """Give the run folders of the services; ``names`` is folder name → service.

    A folder that holds nothing of ours is held: somebody else may have put it there.
    """
    for folder_name, service in sorted(names.items()):
        for path in _folders(work_dir / folder_name):
            is_ours = path.name.startswith(_GOING) or _holds_ours(path)
            held = "" if is_ours else "it holds nothing that a run leaves"
            yield OldFolder(path, service, _changed(path), held)


def incident_folders(work_dir: Path, service: str) -> Iterator[OldFolder]:
    """Give the folders of a service's incidents; one whose incident is not closed is held."""
    for path in _folders(work_dir / INCIDENTS / service):
        yield OldFolder(path, service, _changed(path), _held_by(path))


def remove_folder(path: Path) -> None:
    """Remove a folder; one that was removed half is removed by the next try.

    Raises:
        OutsideFailure: the disk refuses.
    """
    going = path if path.name.startswith(_GOING) else path.with_name(_GOING + path.name)
    try:
        if going != path:
            # Away under its own name first: what is half removed must not be taken for whole.
            path.rename(going)
        shutil.rmtree(going)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be removed: {error.strerror or error}") from error


def _folders(parent: Path) -> list[Path]:
    try:
        found = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OutsideFailure(f"{parent} cannot be read: {error.strerror}") from error
    return sorted(found)


def _holds_ours(path: Path) -> bool:
    # A pass over the log keeps its partitions one folder down.
    return any((path / name).exists() or any(path.glob(f"*/{name}")) for name in _OURS)


def _changed(path: Path) -> datetime | None:
    """Return when anything directly in it changed last."""
    try:
        times = [path.stat().st_mtime, *(child.lstat().st_mtime for child in path.iterdir())]
    except OSError:
        return None
    return datetime.fromtimestamp(max(times), tz=UTC)


def _held_by(path: Path) -> str:
    if path.name.startswith(_GOING):
        return ""
    try:
        state = json.loads((path / JOURNAL).read_bytes()).get("state")
    except FileNotFoundError:
        return "it holds no journal"
    except (OSError, ValueError, AttributeError):
        return "its journal cannot be read"
    return "its incident is not closed" if state in _OPEN or not state else ""
