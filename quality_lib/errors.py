"""The errors of the library, one tree; every command's exit code follows from it.

QualityError
├── BadInput            2  wrong use or bad input: says file, line and what to do
│   └── DigestMismatch  2  two things that must not be compared (another golden set, another format)
├── OutsideFailure      3  a server, store or disk outside failed: worth a retry
│   └── EngineFailed    3  the vLLM server did not start, answer or stop
└── NoData              4  nothing to judge: never a pass, never bad quality

Bad quality is no error: it is a verdict, returned as a value, and exit code 1.
"""

from __future__ import annotations

from pathlib import Path

EXIT_GOOD = 0
EXIT_BAD_QUALITY = 1
EXIT_BAD_INPUT = 2
EXIT_OUTSIDE = 3
EXIT_INCONCLUSIVE = 4


class QualityError(Exception):
    """Anything the library reports to its user in one sentence."""

    exit_code = EXIT_OUTSIDE


class BadInput(QualityError):
    """Input that cannot be used: names the file, the line and the fix where they are known."""

    exit_code = EXIT_BAD_INPUT

    def __init__(
        self,
        problem: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        field: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = str(file) if file is not None else None
        self.line = line
        self.field = field
        self.fix = fix
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        field = f"field '{self.field}': " if self.field else ""
        fix = f" Fix: {self.fix}" if self.fix else ""
        return f"{place}{field}{self.problem}{fix}"


class DigestMismatch(BadInput):
    """Two recordings that do not belong together and must not be compared."""


class OutsideFailure(QualityError):
    """Something outside failed: a server, a store, the disk. A later try may succeed."""

    exit_code = EXIT_OUTSIDE


class EngineFailed(OutsideFailure):
    """A vLLM server did not start, answer or stop; the message names its log."""


class NoData(QualityError):
    """There was nothing to judge. Never a pass and never bad quality."""

    exit_code = EXIT_INCONCLUSIVE
