"""What the drift decision said of one golden check, as it is stored and shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import DriftDecision
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import SequentialState, alarm_level
from quality_lib.drift.severity import Severity
from quality_lib.records import Tri

OTHER_PLATFORM = "other_platform"
OTHER_TRAFFIC = frozenset({"unsteady", "more_traffic"})
"""Codes of a check whose batches other requests shared: the decision is silent, and bands judge the scores."""
SAYS_NOTHING = frozenset({
    "no_data",
    "too_few_probes",
    "no_statistics",
    *OTHER_TRAFFIC,
})
"""Codes of a re-check that adds nothing; what was known before it stands."""


@dataclass(frozen=True)
class DriftReason:
    """One sentence of the decision with its stable code."""

    code: str
    sentence: str


@dataclass(frozen=True)
class DriftStep:
    """The run itself, or one re-check of it."""

    check_id: str
    load: int
    cache: str
    changed: Tri
    layer: str
    e_value: float | None


@dataclass(frozen=True)
class DriftRecord:
    """The decision of one check, with the state that the next one of the same calibration goes on from."""

    key: str
    """Names baseline and calibration; a state of another key is not used."""
    changed: Tri
    pages: bool
    """Whether this check proves a change that somebody is called for."""
    severity: Severity
    layer: str
    reasons: tuple[DriftReason, ...]
    suspected: str | None
    e_value: float | None
    """Of this check alone; None when the layer of evidence was not asked."""
    level: float | None
    """Of all checks together."""
    alarm_level: float
    is_watched: bool
    false_alarms_per_year: float
    endpoints: int
    """That share the budget."""
    calibrated_checks: int
    calibrated_starts: int
    is_deterministic: bool
    steps: tuple[DriftStep, ...]
    state: str
    """JSON of the state after this check."""
    state_from: str
    """Where the state before it came from, in words."""
    bands: tuple[str, ...] = ()
    """Codes of the bands beside the calibration that were left; they count when the next run leaves
    them too."""
    bands_before: tuple[str, ...] = ()
    """The same of the check before."""

    @property
    def rechecks(self) -> int:
        """How many times the sentinel set was asked again."""
        return len(self.steps) - 1

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the reasons."""
        return frozenset(reason.code for reason in self.reasons)

    @property
    def basis(self) -> str:
        """Say what the answer to *changed?* stands on."""
        shared = f" shared by {self.endpoints} endpoints" if self.endpoints > 1 else ""
        return (
            f"calibrated on {self.calibrated_checks} healthy checks over {self.calibrated_starts} "
            f"server starts: at most {self.false_alarms_per_year:g} false alarms a year and endpoint"
            f"{shared}"
        )


@dataclass(frozen=True)
class Decided:
    """One check of the sentinel set and what was decided on it."""

    reading: CheckReading
    decision: DriftDecision


@dataclass(frozen=True)
class StateBefore:
    """What the check before has left."""

    state: SequentialState
    told: str
    """Where it comes from, in words."""
    bands: tuple[str, ...] = ()


def record_of(
    key: str,
    decided: Sequence[Decided],
    calibration: Calibration,
    limits: DriftLimits,
    before: StateBefore,
    bands: tuple[str, ...],
) -> DriftRecord:
    """Put the run and its re-checks together; the last one that says something decides."""
    speaking = [d for d in decided[1:] if not _says_nothing(d.decision)]
    last = (speaking or decided)[-1].decision
    weighed = next((d.decision.evidence for d in reversed(decided) if d.decision.evidence), None)
    return DriftRecord(
        key=key,
        changed=last.changed,
        pages=last.pages,
        severity=last.severity,
        layer=last.layer,
        reasons=tuple(DriftReason(r.code, r.sentence) for r in last.reasons),
        suspected=last.suspected,
        e_value=weighed.e_value if weighed else None,
        level=weighed.level if weighed else None,
        alarm_level=alarm_level(limits),
        is_watched=bool(weighed and weighed.is_watched),
        false_alarms_per_year=limits.false_alarms_per_year,
        endpoints=limits.endpoints,
        calibrated_checks=calibration.checks,
        calibrated_starts=calibration.starts,
        is_deterministic=calibration.is_deterministic,
        steps=tuple(
            DriftStep(
                d.reading.check_id,
                d.reading.block.load,
                d.reading.block.cache,
                d.decision.changed,
                d.decision.layer,
                d.decision.evidence.e_value if d.decision.evidence else None,
            )
            for d in decided
        ),
        state=last.state.to_json(),
        state_from=before.told,
        bands=bands,
        bands_before=before.bands,
    )


def _says_nothing(decision: DriftDecision) -> bool:
    return any(reason.code in SAYS_NOTHING for reason in decision.reasons)
