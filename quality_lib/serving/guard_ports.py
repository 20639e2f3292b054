"""What the guard needs from the rest of the server side, and what does nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from quality_lib.records import Outcome


class ExchangeSink(Protocol):
    """Where records go."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Take a record without waiting; what cannot be kept is counted there."""
        ...


class GateCounters(Protocol):
    """What is counted for ``/metrics`` (``metrics.GuardMetrics``)."""

    def gate_failed(self, level: int, gate: str, reason: str, outcome: Outcome) -> None:
        """Count a verdict worse than a pass."""
        ...

    def suspicious_tokens(self, count: int) -> None:
        """Count tokens that no healthy answer holds."""
        ...

    def gate_skipped(self, gate: str, cause: str) -> None:
        """Count a judgement that was not made."""
        ...

    def stream_stopped(self, reason: str) -> None:
        """Count an answer that was ended early."""
        ...

    def records_lost(self, cause: str, count: int) -> None:
        """Count exchanges that are not in the log."""
        ...


class NoSink:
    """Records nothing."""

    def append(self, record: Mapping[str, Any]) -> None:
        """Forget the record."""


class NoCounters:
    """Counts nothing."""

    def gate_failed(self, level: int, gate: str, reason: str, outcome: Outcome) -> None:
        """Forget it."""

    def suspicious_tokens(self, count: int) -> None:
        """Forget it."""

    def gate_skipped(self, gate: str, cause: str) -> None:
        """Forget it."""

    def stream_stopped(self, reason: str) -> None:
        """Forget it."""

    def records_lost(self, cause: str, count: int) -> None:
        """Forget it."""


def skipped(counters: GateCounters, gate: str, cause: str) -> None:
    """Count what was not done because of a failure of ours; failing to count it changes nothing."""
    with suppress(Exception):
        counters.gate_skipped(gate, cause)
