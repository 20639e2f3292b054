"""A progress bar in bytes, on stderr, for work that several threads do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from quality_lib.commands.output import stderr


@contextmanager
def byte_progress(label: str) -> Generator[Callable[[int, int], None]]:
    """Give a function of (bytes just done, bytes in all); without a terminal it shows nothing."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=stderr,
        disable=not stderr.is_terminal,
    ) as progress:
        task = progress.add_task(label, total=None)

        def advance(count: int, total: int) -> None:
            progress.update(task, advance=count, total=total)

        yield advance


def tell(sentence: str) -> None:
    """Say a remark on stderr."""
    stderr.print(f"[dim]note:[/] {sentence}", highlight=False, soft_wrap=True)
