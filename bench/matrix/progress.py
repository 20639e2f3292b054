"""Tells how far a recording is."""

from __future__ import annotations

import sys
import time

from bench.matrix.plan import Unit


class Progress:
    """Tells on stderr how far it is and how long it will take."""

    def __init__(self, total: int, missing: int) -> None:
        self._total, self._missing, self._done = total, missing, 0
        self._began = time.monotonic()

    def told(self, unit: Unit, rows: int, seconds: float) -> None:
        """Count a finished unit."""
        self._done += 1
        left = self._missing - self._done
        each = (time.monotonic() - self._began) / self._done
        whole = self._total - self._missing + self._done
        print(
            f"{whole}/{self._total} {unit.key}: {rows} rows in {seconds:.0f} s, "
            f"about {left * each / 60:.0f} min left",
            file=sys.stderr,
            flush=True,
        )
