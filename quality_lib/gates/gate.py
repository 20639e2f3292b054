"""What a gate is, and the judgement that several gates give together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from quality_lib.exchanges.exchange import Exchange
from quality_lib.records import Outcome, Verdict


class Level(IntEnum):
    """Where in the life of a request a gate stands."""

    INPUT = 1
    PARAMETERS = 2
    STREAM = 3
    OUTPUT = 4


@dataclass(frozen=True)
class Reason:
    """One stable reason code of a gate, as the catalogue tells it."""

    code: str
    outcome: Outcome
    meaning: str
    """One sentence for a person."""
    limit: str = ""
    """The setting that decides, as ``gates.output.max_loop_share``; empty when there is none."""
    source: str = ""
    """Public reports or a paper behind the rule and its default."""


@dataclass(frozen=True)
class Gate:
    """A named check; ``judge`` is made by a factory from limits and knows nothing else."""

    name: str
    level: Level
    judge: Callable[[Exchange], Verdict]
    reasons: tuple[Reason, ...]
    """Every code that ``judge`` can return, those of a pass included."""


class GateVerdict(NamedTuple):
    """What one gate said; a tuple, for thousands are made in a second."""

    gate: str
    level: Level
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """What all gates said of one exchange."""

    outcome: Outcome
    gates: tuple[GateVerdict, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the codes that made the outcome worse than a pass, the worst first."""
        bad = [
            g.verdict for g in self.gates if g.verdict.outcome in {Outcome.FAILED, Outcome.SUSPECT}
        ]
        bad.sort(key=lambda v: v.outcome is not Outcome.FAILED)
        return tuple(dict.fromkeys(v.reason for v in bad))


def judge(exchange: Exchange, gates: Sequence[Gate]) -> Judgement:
    """Ask every gate; the worst answer is the outcome, and a gate that crashes is UNJUDGED.

    The outcome is UNJUDGED only when no gate could say anything: no data is never a pass.
    """
    said = []
    # A named tuple's own constructor costs more than many a gate.
    make = tuple.__new__
    worst, rank = Outcome.UNJUDGED, 0
    for gate in gates:
        try:
            verdict = gate.judge(exchange)
        except Exception as error:  # noqa: BLE001  a broken checker must not touch a user's request
            verdict = _crashed(gate, error)
        said.append(make(GateVerdict, (gate.name, gate.level, verdict)))
        outcome = verdict.outcome
        if outcome is not worst and _RANKS[outcome] > rank:
            worst, rank = outcome, _RANKS[outcome]
    return Judgement(worst, tuple(said))


_RANKS = {Outcome.UNJUDGED: 0, Outcome.PASSED: 1, Outcome.SUSPECT: 2, Outcome.FAILED: 3}


def _crashed(gate: Gate, error: Exception) -> Verdict:
    return Verdict(
        Outcome.UNJUDGED,
        "gate_crashed",
        f"The gate {gate.name} crashed: {type(error).__name__}.",
        {"error": type(error).__name__},
    )
