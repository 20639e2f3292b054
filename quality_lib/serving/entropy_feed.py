"""Carries what the engine's logits processor has counted over to ``/metrics``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from quality_lib.serving.entropy_layout import EntropyCounts

EVERY_S = 1.0


class EntropyMetrics(Protocol):
    """The part of ``metrics.GuardMetrics`` that is fed."""

    def entropies(self, bucket_counts: Sequence[float], total_nats: float = 0.0) -> None:
        """Add steps per bucket."""
        ...

    def nan_logits(self, steps: int) -> None:
        """Count steps whose logits were not numbers."""
        ...

    def corrected_steps(self, count: int) -> None:
        """Count steps that were drawn again."""
        ...


class EntropyFeed:
    """Add what is new since the last time; asking often costs nothing.

    Of several API servers, which all read the same counters and whose metrics are summed, one adds:
    the one that ``is_ours`` says. The others go along, so that the next goes on where that one ended.
    """

    def __init__(
        self,
        read: Callable[[], EntropyCounts | None],
        metrics: EntropyMetrics,
        clock: Callable[[], float],
        is_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self._read = read
        self._metrics = metrics
        self._clock = clock
        self._is_ours = is_ours
        self._due = clock()
        self._told = EntropyCounts()
        self._lock = threading.Lock()

    def pump(self) -> None:
        """Carry over what has come, at most once a second."""
        if self._clock() < self._due or not self._lock.acquire(blocking=False):
            return
        try:
            self._due = self._clock() + EVERY_S
            now = self._read()
            if now is not None:
                before, self._told = self._told, now
                if self._is_ours():
                    self._tell(before, now)
        finally:
            self._lock.release()

    def _tell(self, before: EntropyCounts, now: EntropyCounts) -> None:
        # A counter that went back belongs to an engine that has been started anew.
        if now.rows > before.rows:
            buckets = [max(0, b - a) for a, b in zip(before.buckets, now.buckets, strict=True)]
            self._metrics.entropies(buckets, now.entropy_sum - before.entropy_sum)
        if now.nan_rows > before.nan_rows:
            self._metrics.nan_logits(now.nan_rows - before.nan_rows)
        if now.corrected_rows > before.corrected_rows:
            self._metrics.corrected_steps(now.corrected_rows - before.corrected_rows)
