"""How a benchmark ends on an error that the library knows: one sentence and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from quality_lib.errors import QualityError


@contextmanager
def errors_told() -> Generator[None]:
    """Say what went wrong instead of a traceback, and end with the error's exit code."""
    try:
        yield
    except QualityError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
