"""What the guard counts, on the server's own ``/metrics``.

vLLM exposes prometheus_client's default registry, or with several API servers the files of its
multiprocess mode; metrics made in the default registry appear in both. vLLM removes collectors whose
name begins with ``vllm:`` when it starts; ours begin with ``vllm_`` and stay.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from quality_lib.records import Outcome
from quality_lib.serving.entropy_buckets import ENTROPY_BUCKETS

_CHECK = ("check", "level", "reason")

_making = threading.Lock()
_KEPT = "_quality_guard_metrics"
"""Where a registry keeps them: on itself, so that a second import of this module finds them too."""


class _BulkHistogram(Histogram):
    """A histogram that takes many observations at once."""

    def add(self, counts: Sequence[float], total: float) -> None:
        """Add ``counts`` per bucket, the one above all bounds last, whose values sum to ``total``."""
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
        self._sum.inc(total)


class GuardMetrics:
    """The counters of one registry; made once per registry however often it is asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register every metric; use ``of`` instead, which does so only once."""

        def counter(name: str, meaning: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        self._suspicious = counter(
            "vllm_output_suspicious_token_total",
            "Generated tokens that no healthy answer holds (pad, unused, reserved, U+FFFD pieces).",
        )
        self._failed = counter(
            "vllm_request_failed_validation_total", "Checks that an exchange failed.", _CHECK
        )
        self._suspect = counter(
            "vllm_request_suspect_validation_total",
            "Checks that found an exchange suspect.",
            _CHECK,
        )
        self._entropy = _BulkHistogram(
            "vllm_generation_entropy",
            "Entropy of the next-token distribution per step, in nats.",
            buckets=ENTROPY_BUCKETS,
            registry=registry,
        )
        self._nan_steps = counter(
            "vllm_quality_nan_logits_total", "Generation steps whose logits held NaN or infinity."
        )
        self._skipped = counter(
            "vllm_quality_gate_skipped_total",
            "Checks that were not made, by cause (crashed, slow, …).",
            ("check", "cause"),
        )
        self._stopped = counter(
            "vllm_quality_stream_stopped_total", "Answers that a gate ended early.", ("reason",)
        )
        self._corrected = counter(
            "vllm_quality_corrected_steps_total", "Steps drawn again at a lower temperature."
        )
        self._written = counter(
            "vllm_quality_records_written_total", "Exchanges written to the log."
        )
        self._lost = counter(
            "vllm_quality_records_lost_total",
            "Exchanges that are not in the log, by cause.",
            ("cause",),
        )
        self._shipped_files = counter(
            "vllm_quality_log_shipped_files_total", "Log files that S3 has confirmed."
        )
        self._shipped_records = counter(
            "vllm_quality_log_shipped_records_total", "Exchanges that S3 has confirmed."
        )
        self._shipped_bytes = counter(
            "vllm_quality_log_shipped_bytes_total", "Bytes sent to S3, compressed."
        )
        self._ship_failures = counter(
            "vllm_quality_log_ship_failures_total", "Uploads that failed, by cause.", ("cause",)
        )
        # Of several API servers one ships; the others show zero.
        self._waiting = Gauge(
            "vllm_quality_log_waiting_bytes",
            "Bytes of finished log files that wait to be shipped.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._lag = Gauge(
            "vllm_quality_log_lag_seconds",
            "Age of the oldest finished log file that waits to be shipped.",
            registry=registry,
            multiprocess_mode="livemax",
        )

    @classmethod
    def of(cls, registry: CollectorRegistry = REGISTRY) -> GuardMetrics:
        """Return the registry's metrics; the default one is what the server exposes."""
        with _making:
            kept: GuardMetrics | None = getattr(registry, _KEPT, None)
            if kept is None:
                kept = cls(registry)
                setattr(registry, _KEPT, kept)
            return kept

    def gate_failed(self, level: int, gate: str, reason: str, outcome: Outcome) -> None:
        """Count a FAILED or SUSPECT verdict; other outcomes are not counted here."""
        if outcome is Outcome.FAILED:
            self._failed.labels(gate, str(int(level)), reason).inc()
        elif outcome is Outcome.SUSPECT:
            self._suspect.labels(gate, str(int(level)), reason).inc()

    def suspicious_tokens(self, count: int) -> None:
        """Count tokens of a suspicious run."""
        self._suspicious.inc(count)

    def gate_skipped(self, gate: str, cause: str) -> None:
        """Count a check that was not made."""
        self._skipped.labels(gate, cause).inc()

    def stream_stopped(self, reason: str) -> None:
        """Count an answer that was ended early."""
        self._stopped.labels(reason).inc()

    def corrected_steps(self, count: int) -> None:
        """Count steps that were drawn again."""
        self._corrected.inc(count)

    def entropies(self, bucket_counts: Sequence[float], total_nats: float = 0.0) -> None:
        """Add steps by ``ENTROPY_BUCKETS``, one count per bucket and one more for all above.

        ``total_nats`` is the sum of their entropies.
        """
        self._entropy.add(bucket_counts, total_nats)

    def nan_logits(self, steps: int) -> None:
        """Count steps whose logits were not numbers."""
        self._nan_steps.inc(steps)

    def records_written(self, count: int) -> None:
        """Count exchanges that the operating system has taken."""
        self._written.inc(count)

    def records_lost(self, cause: str, count: int) -> None:
        """Count exchanges that are not in the log."""
        self._lost.labels(cause).inc(count)

    def shipped(self, files: int, records: int, size: int) -> None:
        """Count what S3 has confirmed."""
        self._shipped_files.inc(files)
        self._shipped_records.inc(records)
        self._shipped_bytes.inc(size)

    def ship_failed(self, cause: str) -> None:
        """Count a failed upload."""
        self._ship_failures.labels(cause).inc()

    def waiting_to_ship(self, size: int, oldest_s: float) -> None:
        """Show what waits."""
        self._waiting.set(size)
        self._lag.set(oldest_s)
