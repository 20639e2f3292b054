"""Level 2: the parameters a request should have been sent with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_conflicts import conflict_findings
from quality_lib.gates.parameter_finding import Finding, RequestContext
from quality_lib.gates.parameter_ranges import number_of, range_findings
from quality_lib.records import Outcome


@dataclass(frozen=True)
class Adjusted:
    """The parameters to send, and every change with its reason."""

    params: Mapping[str, Any]
    changes: tuple[Finding, ...] = ()

    @property
    def refusable(self) -> tuple[Finding, ...]:
        """Return the changes that mode ``reject`` refuses: all that are not harmless."""
        return tuple(change for change in self.changes if change.outcome is not Outcome.PASSED)


def adjust(
    params: Mapping[str, Any],
    bounds: ParameterBounds,
    context: RequestContext | None = None,
) -> Adjusted:
    """Resolve contradictions and put each parameter inside its bounds.

    Parameters that are not known, and those that were not sent, stay as they are. The mode is the
    caller's affair: ``observe`` tells ``changes``, ``clamp`` sends ``params``, ``reject`` refuses when
    anything is ``refusable``.
    """
    context = context or RequestContext()
    adjusted = dict(params)
    changes: list[Finding] = []
    for finding in range_findings(params, bounds):
        changes.append(finding)
        _apply(adjusted, finding)
    # A value that was just put right may contradict another one.
    for finding in conflict_findings(adjusted, bounds, has_structure=context.has_structure):
        changes.append(finding)
        _apply(adjusted, finding)
    cooler = _cooler(adjusted, bounds, context)
    if cooler is not None:
        changes.append(cooler)
        _apply(adjusted, cooler)
    return Adjusted(adjusted, tuple(changes))


def _apply(params: dict[str, Any], finding: Finding) -> None:
    if finding.after is None:
        params.pop(finding.name, None)
    else:
        params[finding.name] = finding.after


def _cooler(
    params: Mapping[str, Any], bounds: ParameterBounds, context: RequestContext
) -> Finding | None:
    """Lower the temperature of code and JSON, where that is switched on."""
    limit = bounds.context_temperature
    if limit is None or not (context.has_structure or context.asks_for_code):
        return None
    before = params.get("temperature")
    number = number_of(before)
    if before is not None and number is not None and number <= limit:
        return None
    what = "JSON" if context.has_structure else "code"
    sentence = f"A request for {what} gets the temperature {limit:g}."
    return Finding(
        "temperature", before, limit, "parameter_cooled_for_context", Outcome.PASSED, sentence
    )
