"""What the guard is made of, and how it is made from the configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate
from quality_lib.serving.admission import Admitter
from quality_lib.serving.choice_state import Caps, Monitor
from quality_lib.serving.detail_share import DetailShare
from quality_lib.serving.failure_log import FailureLog
from quality_lib.serving.guard_ports import ExchangeSink, GateCounters, NoCounters, NoSink
from quality_lib.serving.judge_pool import JudgePool
from quality_lib.serving.spans import NoSpans, Spans

MonitorOf = Callable[[Exchange], Monitor]
"""Makes the monitor of one choice from what it answers."""


class EntropySource(Protocol):
    """What our logits processor measured in the engine (``entropy_reader.EntropyReader``)."""

    def counts(self) -> Any:
        """Return the engine's counters; ``None`` when nobody measures."""
        ...

    def follow(self, quality_id: str) -> None:
        """Keep the entropies of this request from now on."""
        ...

    def leave(self, quality_id: str) -> list[float]:
        """Stop, and return what came."""
        ...


@dataclass(frozen=True)
class GuardLimits:
    """What the guard may spend on a request."""

    max_body_bytes: int = 32 * 2**20
    """A longer request body passes unread, as one that cannot be judged."""
    max_answer_bytes: int = 64 * 2**20
    """A longer answer that does not stream passes unjudged, and is recorded without its text."""
    caps: Caps = field(default_factory=Caps)
    gate_budget_s: float = 0.25
    """Time for the gates of one level on one exchange; the rest is skipped as slow."""
    long_request_s: float = 1.0
    """How long a long request may wait for its judgement; then it passes unjudged."""
    inline_bytes: int = 16 * 2**10
    """Longer requests are judged in a thread, so that others are not held up meanwhile."""
    inline_record_bytes: int = 64 * 2**10
    """Where no thread takes an exchange, a larger one is lost: recording it would hold up others."""
    batch_chunks: int = 64
    """Chunks of a stream that are read together, or after ``batch_s`` seconds."""
    batch_bytes: int = 64 * 2**10
    batch_s: float = 2.0
    stop_chunks: int = 8
    """The same where a stream may be stopped."""


@dataclass(frozen=True)
class GuardParts:
    """Everything a guard uses; the defaults observe nothing and record nothing."""

    service: str = ""
    snapshot_id: str = ""
    limits: GuardLimits = field(default_factory=GuardLimits)
    admitter: Admitter | None = None
    finished_gates: tuple[Gate, ...] = ()
    """Asked when the answer is over: level 4, and what of level 1 needs the server's counts."""
    monitor: MonitorOf | None = None
    stops: bool = False
    """Whether a stream whose monitor says FAILED is ended."""
    engine_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that make the engine itself react; added where a client has not set them."""
    entropies: EntropySource | None = None
    """Where the entropies of a followed request come from."""
    detail: DetailShare = field(default_factory=lambda: DetailShare(0.0))
    sink: ExchangeSink = field(default_factory=NoSink)
    counters: GateCounters = field(default_factory=NoCounters)
    failures: FailureLog | None = None
    spans: Spans = field(default_factory=NoSpans)
    pool: JudgePool | None = None
    """``None``: judged at once, on the event loop (tests)."""
    admission_pool: JudgePool | None = None
    """Where long requests are judged; ``None``: at once, on the event loop (tests)."""
    on_finished: Callable[[], None] = lambda: None
    """Called after every record, in the thread that made it."""
    on_close: Callable[[], None] = lambda: None
    """Called at the end of the server, after the pool has finished."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Where vLLM's own key may lie."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def close(self) -> None:
        """Finish what is queued and put the parts away: up to 15 s, so not on the event loop."""
        if self.pool is not None:
            self.pool.close()
        if self.admission_pool is not None:
            # Its requests are over.
            self.admission_pool.close(0.0)
        self.on_close()
