"""What the golden report shows of the decision on *changed*: words and numbers for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quality_lib.adapters.pages.report_rows import NO_NUMBER
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.records import Tri

_LAYERS = {
    "L0": "L0, exact facts",
    "L1": "L1, exact scores",
    "L2": "L2, evidence over hours",
    "none": "none speaks of a change",
}
_TONES = {Tri.YES: "degraded", Tri.NO: "healthy", Tri.UNKNOWN: "inconclusive"}


@dataclass(frozen=True)
class DriftSection:
    """The section of the report."""

    tone: str
    sentences: tuple[tuple[str, str], ...]
    """Sentence and code."""
    pairs: tuple[tuple[str, str], ...]


def drift_section(drift: DriftRecord) -> DriftSection:
    """Put a decision into words."""
    return DriftSection(
        tone=_TONES[drift.changed],
        sentences=tuple((r.sentence, r.code) for r in drift.reasons),
        pairs=tuple(_pairs(drift)),
    )


def _pairs(drift: DriftRecord) -> Iterator[tuple[str, str]]:
    yield "Changed", drift.changed.value
    yield "Layer", _LAYERS.get(drift.layer, drift.layer)
    yield "Severity", drift.severity.value
    yield "E-value of this check", _number(drift.e_value)
    yield (
        "Evidence of all checks",
        f"{_number(drift.level)}, alarm from {_number(drift.alarm_level)}",
    )
    shared = f", shared by {drift.endpoints} endpoints" if drift.endpoints > 1 else ""
    yield "False alarms", f"at most {drift.false_alarms_per_year:g} a year and endpoint{shared}"
    yield (
        "Calibrated on",
        f"{drift.calibrated_checks:,} healthy checks over {drift.calibrated_starts} server starts",
    )
    yield "Probably sits in", drift.suspected or "nothing to name"
    yield "Evidence before", drift.state_from
    for step in drift.steps[1:]:
        yield (
            "Re-check",
            f"{step.load} at once, cache {step.cache}: changed {step.changed.value}, "
            f"e-value {_number(step.e_value)}",
        )
    if drift.is_watched:
        yield "Watch line", "crossed; nobody is called for it"


def _number(value: float | None) -> str:
    return NO_NUMBER if value is None else f"{value:,.4g}"
