"""How many requests a server works on while it is asked, other users' included; from its ``/metrics``."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx

EVERY_S = 0.5
"""A server is not asked more often than this: its metrics cost about as much as a short request."""
TIMEOUT_S = 5.0
# Not the parser of ``adapters/engine/signals.py``: a whole page takes it 8 ms, and here requests wait meanwhile.
_RUNNING = re.compile(r"^vllm:num_requests_running(?:\{[^}\n]*\})? (\S+)", re.MULTILINE)


class RunningRequests:
    """Looks at a server now and then, and remembers the most that it was working on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: float | None = None
        self._is_told = True
        self._most: int | None = None

    async def look(self, http: httpx.AsyncClient) -> None:
        """Look, unless that was just done; a server that does not tell is asked once."""
        now = self._clock()
        if not self._is_told or (self._last is not None and now - self._last < EVERY_S):
            return
        self._last = now
        try:
            answer = await http.get("/metrics", timeout=TIMEOUT_S)
        except httpx.HTTPError:
            return
        running = running_of(answer.text) if answer.status_code == httpx.codes.OK else None
        if running is None:
            self._is_told = False
        else:
            self._most = max(running, self._most or 0)

    def take(self) -> int | None:
        """Return the most since the last call, and begin anew; None: nothing was told."""
        most, self._most = self._most, None
        # The next check begins with a look of its own.
        self._last = None
        return most


def running_of(metrics: str) -> int | None:
    """Sum up the requests that all engines behind one server work on; None where it is not told."""
    try:
        found = [float(value) for value in _RUNNING.findall(metrics)]
        return round(sum(found)) if found else None
    except (ValueError, OverflowError):
        return None
