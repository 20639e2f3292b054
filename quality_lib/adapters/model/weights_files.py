"""The files of a model folder: their hashes, and whether they still are what was recorded."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.snapshots.manifest import FileRecord, WeightsRecord, root_hash

BLOCK = 1 << 20
"""Bytes per read: large enough to keep the disk busy, small enough to stay in the CPU's cache."""

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf")
JUNK_NAMES = frozenset({"__pycache__"})
JUNK_SUFFIXES = (".lock",)

Progress = Callable[[int, int], None]
"""Called with (bytes just read, bytes in all), from several threads."""
Note = Callable[[str], None]
"""Called with a sentence about a file that was left out or lies elsewhere."""


@dataclass(frozen=True)
class Difference:
    """One file that is not as recorded."""

    path: str
    kind: Literal["missing", "extra", "size", "hash"]
    expected: str
    found: str

    @property
    def sentence(self) -> str:
        """The difference for a person."""
        match self.kind:
            case "missing":
                return f"{self.path}: is missing ({self.expected} recorded)"
            case "extra":
                return f"{self.path}: was not there when the snapshot was made ({self.found})"
            case "size":
                return f"{self.path}: has {self.found}, recorded are {self.expected}"
        return f"{self.path}: has SHA-256 {self.found}, recorded is {self.expected}"


@dataclass(frozen=True)
class _Found:
    path: str
    real: Path
    size: int


def hash_folder(
    folder: Path,
    progress: Progress | None = None,
    workers: int | None = None,
    note: Note | None = None,
) -> WeightsRecord:
    """Hash every regular file of a model folder, several files at a time, each read once.

    Hidden files and lock files are left out; ``note`` hears of it. ``workers`` defaults to the
    number of cores.

    Raises:
        BadInput: no such folder, no weights in it, or a file that may not be read.
        OutsideFailure: the disk failed, or a file changed or vanished while it was hashed.
    """
    files = _scan(folder, note)
    if not any(file.path.endswith(WEIGHT_SUFFIXES) for file in files):
        wanted = ", ".join("*" + suffix for suffix in WEIGHT_SUFFIXES)
        raise BadInput(
            f"holds no weights ({wanted})" if files else "is empty",
            file=folder,
            fix="name the folder of the model itself (for a Hugging Face cache: snapshots/<commit>)",
        )
    records = tuple(_hash_all(files, progress, workers))
    return WeightsRecord(records, root_hash(records), folder.absolute().as_uri())


def hash_files(folder: Path) -> tuple[FileRecord, ...]:
    """Hash every regular file of a folder that need not hold a model."""
    return tuple(_hash_all(_scan(folder, None), None, None))


def verify_folder(
    folder: Path,
    recorded: WeightsRecord,
    progress: Progress | None = None,
    workers: int | None = None,
    note: Note | None = None,
) -> list[Difference]:
    """Return where a folder differs from its record, sorted by path; an empty list is a match.

    Names and sizes are compared first: when a file is missing or has another size, no content is
    read, for the answer is known.
    """
    wanted = {record.path: record for record in recorded.files}
    there = {file.path: file for file in _scan(folder, note)}
    differences = [
        Difference(path, "missing", f"{wanted[path].size} bytes", "nothing")
        for path in wanted.keys() - there.keys()
    ]
    common = [there[path] for path in sorted(wanted.keys() & there.keys())]
    differences += [
        Difference(file.path, "size", f"{wanted[file.path].size} bytes", f"{file.size} bytes")
        for file in common
        if file.size != wanted[file.path].size
    ]
    is_known_bad = bool(differences)
    differences += [
        Difference(path, "extra", "nothing", f"{there[path].size} bytes")
        for path in there.keys() - wanted.keys()
    ]
    if not is_known_bad:
        differences += [
            Difference(record.path, "hash", wanted[record.path].sha256, record.sha256)
            for record in _hash_all(common, progress, workers)
            if record.sha256 != wanted[record.path].sha256
        ]
    return sorted(differences, key=lambda difference: difference.path)


def _scan(folder: Path, note: Note | None) -> list[_Found]:
    if not folder.is_dir():
        raise BadInput(
            "is no folder" if folder.exists() else "does not exist",
            file=folder,
            fix="name the model's folder",
        )
    return sorted(_walk(folder, folder.resolve(), "", note or _ignore), key=lambda f: f.path)


def _walk(folder: Path, root: Path, prefix: str, note: Note) -> Iterator[_Found]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(folder, error) from error
    for entry in entries:
        name = prefix + entry.name
        if _is_junk(entry.name):
            note(f"{name} is left out (hidden or no part of a model)")
            continue
        path = Path(entry.path)
        if not _is_text(name):
            raise BadInput("the file name is no valid UTF-8", file=repr(name), fix="rename it")
        if entry.is_symlink():
            found = _follow(path, root, name, note)
            if found is not None:
                yield found
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(path, root, name + "/", note)
        elif entry.is_file(follow_symlinks=False):
            yield _Found(name, path, entry.stat(follow_symlinks=False).st_size)
        else:
            note(f"{name} is left out (no regular file)")


def _follow(link: Path, root: Path, name: str, note: Note) -> _Found | None:
    """Take a link to a file (a Hugging Face cache is made of them), never one out to a folder."""
    try:
        target = link.resolve(strict=True)
        status = target.stat()
    except (OSError, RuntimeError) as error:
        raise BadInput(
            f"is a link to nothing ({error})", file=link, fix="restore or delete it"
        ) from None
    is_inside = target.is_relative_to(root)
    if stat.S_ISREG(status.st_mode):
        if not is_inside:
            note(f"{name} lies outside the folder, at {target}")
        return _Found(name, target, status.st_size)
    if not is_inside:
        raise BadInput(f"is a link out of the folder, to {target}", file=link, fix="copy it in")
    note(f"{name} is left out (a link to another part of the folder)")
    return None


def _hash_all(
    files: list[_Found], progress: Progress | None, workers: int | None
) -> list[FileRecord]:
    """Hash the files, the largest first so that no core waits for the last one."""
    total = sum(file.size for file in files)
    stop = threading.Event()

    def advance(count: int) -> None:
        if progress is not None:
            progress(count, total)

    with ThreadPoolExecutor(workers or os.cpu_count() or 1, "hash") as pool:
        try:
            largest_first = sorted(files, key=lambda file: -file.size)
            jobs = [pool.submit(_hash_file, file, advance, stop) for file in largest_first]
            wait(jobs, return_when=FIRST_EXCEPTION)
            failed = [error for job in jobs if job.done() and (error := job.exception())]
            if failed:
                raise failed[0]
        finally:
            # Also after Ctrl-C: the threads must not go on reading a hundred gigabytes.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    return sorted((job.result() for job in jobs), key=lambda record: record.path)


def _hash_file(file: _Found, advance: Callable[[int], None], stop: threading.Event) -> FileRecord:
    digest = hashlib.sha256()
    view = memoryview(bytearray(BLOCK))
    try:
        with file.real.open("rb", buffering=0) as stream:
            before = os.fstat(stream.fileno())
            done = 0
            # A file that grows as fast as it is read would never end.
            while done <= file.size and not stop.is_set() and (count := stream.readinto(view)):
                digest.update(view[:count])
                done += count
                advance(count)
        after = file.real.stat()
    except OSError as error:
        raise _unreadable(file.real, error) from error
    if _identity(before) != _identity(after) or before.st_size != file.size:
        raise OutsideFailure(
            f"{file.real}: changed while it was hashed. Fix: wait until nothing writes to the folder"
        )
    return FileRecord(file.path, file.size, digest.hexdigest())


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _unreadable(path: Path, error: OSError) -> BadInput | OutsideFailure:
    if isinstance(error, PermissionError):
        return BadInput("may not be read", file=path, fix="give this user the right to read it")
    if isinstance(error, FileNotFoundError):
        return OutsideFailure(f"{path}: vanished while the folder was read")
    return OutsideFailure(f"{path}: cannot be read: {error.strerror or error}")


def _is_junk(name: str) -> bool:
    return name.startswith(".") or name in JUNK_NAMES or name.endswith(JUNK_SUFFIXES)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ignore(_: str) -> None:
    """Hear nothing."""
