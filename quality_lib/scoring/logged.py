"""A judgement of a logged answer, with what only its record knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from quality_lib.exchanges.row import Facts
from quality_lib.gates.gate import GateVerdict, Judgement, Level
from quality_lib.records import Outcome, Verdict

STREAM_GATE = "stream"
"""The name under which the guarded server records level 3."""
FAULTS_OF_MASKS = frozenset({"answer_schema_mismatch", "tool_arguments_mismatch"})
"""Reasons that a placeholder such as ``[email]`` in the place of a value can cause."""


def judged_as_logged(
    judgement: Judgement, facts: Facts, more: Iterable[GateVerdict] = ()
) -> Judgement:
    """Add what level 3 recorded and models said, and take back what masking alone may have caused.

    The outcome itself is taken anew from all gates by ``score_of``.
    """
    gates = judgement.gates
    if "response" in facts.masked:
        gates = tuple(_without_faults_of_masks(said) for said in gates)
    stream = (GateVerdict(STREAM_GATE, Level.STREAM, said) for said in facts.stream_verdicts)
    return Judgement(judgement.outcome, (*stream, *gates, *more))


def _without_faults_of_masks(said: GateVerdict) -> GateVerdict:
    if said.verdict.reason not in FAULTS_OF_MASKS:
        return said
    verdict = Verdict(
        Outcome.UNJUDGED, "answer_masked", "Values of the answer were masked in the log."
    )
    return said._replace(verdict=verdict)
