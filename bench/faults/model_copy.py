"""A copy of a model folder that a fault may be written into; the source is never touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path

from quality_lib.errors import BadInput


@contextmanager
def model_copy(source: Path, folder: Path, written: Collection[str] = ()) -> Generator[Path]:
    """Give a copy of the folder and remove it at the end.

    Files whose names end like one of ``written`` are copied; the others are links, which cost no space.
    """
    if not (source / "config.json").is_file():
        raise BadInput("is no model folder", file=source)
    folder.mkdir(parents=True)
    try:
        for file in sorted(source.iterdir()):
            place = folder / file.name
            if any(file.name.endswith(end) for end in written):
                shutil.copyfile(file, place)
            elif file.is_file():
                _link(file, place)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:  # another file system
        shutil.copyfile(file, place)
