"""One bar for work that goes through stages; without a terminal, a line at each tenth."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from quality_lib.commands.output import progress_bar, stderr
from quality_lib.golden.ports import Progress


@contextmanager
def stage_progress(noun: str = "") -> Generator[Progress]:
    """Show the current stage on stderr; ``noun`` says what is counted, in the task log."""
    words = f" {noun}" if noun else ""
    with progress_bar(quiet=not stderr.is_terminal) as bars:
        tasks: dict[str, Any] = {}
        told: dict[str, int] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stderr.is_terminal:
                if "run" not in tasks:
                    tasks["run"] = bars.add_task(stage, total=total)
                bars.update(tasks["run"], description=stage, completed=done, total=total)
                return
            share = 10 * done // max(1, total)
            if told.get(stage) != share:
                told[stage] = share
                stderr.print(f"{stage}: {done} of {total}{words}", highlight=False)

        yield show
