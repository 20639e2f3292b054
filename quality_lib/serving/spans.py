"""OpenTelemetry spans of gates, as children of the caller's own trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from quality_lib.gates.gate import GateVerdict
from quality_lib.serving.gate_run import outcome_of, reasons_of


class Spans(Protocol):
    """Where spans go."""

    def record(
        self,
        name: str,
        headers: Iterable[Any],
        began_ns: int,
        ended_ns: int,
        request_id: str,
        said: Sequence[GateVerdict],
    ) -> None:
        """Tell of gates that were asked between two moments, nanoseconds since 1970."""
        ...


class NoSpans:
    """Tells nobody."""

    def record(
        self,
        name: str,
        headers: Iterable[Any],
        began_ns: int,
        ended_ns: int,
        request_id: str,
        said: Sequence[GateVerdict],
    ) -> None:
        """Forget it."""


class OtelSpans:
    """Spans by the tracer provider that the server has configured."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def record(
        self,
        name: str,
        headers: Iterable[Any],
        began_ns: int,
        ended_ns: int,
        request_id: str,
        said: Sequence[GateVerdict],
    ) -> None:
        """Write one span with the verdicts worse than a pass as events."""
        from opentelemetry import propagate

        carrier = {
            bytes(k).decode("latin-1").lower(): bytes(v).decode("latin-1") for k, v in headers
        }
        span = self._tracer.start_span(
            name,
            context=propagate.extract(carrier),
            start_time=began_ns,
            attributes={
                "quality.request_id": request_id,
                "quality.outcome": outcome_of(said).value,
                "quality.reasons": list(reasons_of(said)),
            },
        )
        for one in said:
            if one.verdict.reason in reasons_of((one,)):
                span.add_event(
                    one.gate,
                    {
                        "quality.outcome": one.verdict.outcome.value,
                        "quality.reason": one.verdict.reason,
                    },
                    timestamp=ended_ns,
                )
        span.end(end_time=ended_ns)


def configured_spans() -> Spans:
    """Return spans when OpenTelemetry is there and the process has a real provider, else none."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return NoSpans()
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        return NoSpans()
    return OtelSpans(provider.get_tracer("quality_lib.serving"))
