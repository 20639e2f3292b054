"""What the demo tells: its steps, and what each of them must show."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality_lib.adapters.stack.local import StackAddresses
from quality_lib.adapters.stack.user_load import Phase
from quality_lib.errors import QualityError

Say = Callable[[str], None]

LOG_LINES = 15
"""So much of a failed task's log is shown; all of it is in Airflow."""

GROUP_MARK = "group::"
"""In lines that only fold a log in Airflow's pages."""


class ExpectationFailed(QualityError):
    """A step of the story did not turn out as it must."""

    exit_code = 1


@dataclass
class Step:
    """One line of the closing table."""

    title: str
    expected: str
    found: str = ""
    seconds: float = 0.0
    is_as_expected: bool = False

    @property
    def headline(self) -> str:
        """What was found, without the log that may follow it."""
        return self.found.partition("\n")[0]


@dataclass
class Story:
    """What happened, for the closing table and for ``--json``."""

    steps: list[Step] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    """What users got, part by part."""
    moments: dict[str, float] = field(default_factory=dict)
    """Seconds from the bad deployment to what followed from it, in the order of the story."""
    addresses: StackAddresses | None = None
    endpoint: str = ""
    config: Path | None = None
    reports: list[Mapping[str, str]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)
    run_urls: list[str] = field(default_factory=list)

    @property
    def is_as_expected(self) -> bool:
        """Whether every step turned out as it must."""
        return bool(self.steps) and all(step.is_as_expected for step in self.steps)

    @contextmanager
    def step(self, title: str, expected: str, say: Say) -> Generator[Step]:
        """Tell one step; it is as expected when its block ends without an error."""
        step = Step(title, expected)
        self.steps.append(step)
        say(f"▶ {title}")
        began = time.monotonic()
        try:
            yield step
            step.is_as_expected = True
        except QualityError as error:
            step.found = str(error)
            raise
        finally:
            step.seconds = time.monotonic() - began
            say(f"{'✓' if step.is_as_expected else '✗'} {title}: {step.headline}")


def failed_tasks(names: Sequence[str], log: str) -> str:
    """Return which tasks of a run have failed, and how the log of the first one ends."""
    if not names:
        return "no task failed"
    lines = [line for line in log.splitlines() if GROUP_MARK not in line]
    ends = f"failed: {', '.join(names)}; the log of {names[0]} ends with:"
    return "\n".join([ends, *lines[-LOG_LINES:]])


def expect(condition: object, what: str) -> None:
    """Break the story off where something is not as it must be.

    Raises:
        ExpectationFailed: naming what was found.
    """
    if not condition:
        raise ExpectationFailed(f"not as expected: {what}")
