"""How every command speaks: the result on stdout, progress and words for people on stderr."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

stdout = Console()
stderr = Console(stderr=True)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one machine-readable object on stdout, nothing else.")
]


def plain(value: Any) -> Any:
    """Turn dataclasses, enums, paths and tuples into what JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    return value


def emit_json(value: Any) -> None:
    """Write one JSON object and a line end to stdout."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


@contextmanager
def progress_bar(quiet: bool = False) -> Generator[Progress, None, None]:
    """Give a progress display on stderr; with ``quiet`` or without a terminal it prints no bar."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=stderr,
        disable=quiet,
        transient=False,
    ) as progress:
        yield progress
