"""Levels 1 and 2: whether a request may pass, and with which parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, GateVerdict, Level
from quality_lib.gates.parameters import Adjusted
from quality_lib.records import Outcome
from quality_lib.serving.asked import Asked
from quality_lib.serving.gate_run import outcome_of, reasons_of, run_gates
from quality_lib.serving.guard_ports import GateCounters
from quality_lib.serving.refusal import Refusal

MAX_PROMPTS = 64
"""Prompts of one completions request that are judged; the others count as not judged."""


Adjust = Callable[[Exchange], Adjusted]
"""What level 2 makes of a request's parameters."""


@dataclass(frozen=True)
class Admission:
    """What levels 1 and 2 said of a request."""

    verdicts: tuple[GateVerdict, ...] = ()
    refusal: Refusal | None = None
    adjustment: Adjusted | None = None
    """Parameters to be used instead of those asked; ``None``: as asked."""

    @property
    def header(self) -> bytes | None:
        """Return the value of ``x-quality-verdict``; ``None`` when nothing was judged."""
        if not self.verdicts:
            return None
        codes = ",".join(reasons_of(self.verdicts))
        outcome = outcome_of(self.verdicts).value
        return f"{outcome}; {codes}".encode() if codes else outcome.encode()


@dataclass(frozen=True)
class Admitter:
    """The gates of levels 1 and 2 with the reactions that are configured."""

    input_gates: Sequence[Gate]
    parameter_gates: Sequence[Gate]
    counters: GateCounters
    clock: Callable[[], float]
    adjust: Adjust = field(default=lambda exchange: Adjusted(exchange.params))
    enforces: bool = False
    mode: str = "observe"
    """Of level 2: ``observe``, ``clamp`` or ``reject``."""
    budget_s: float = 0.25

    def admit(self, asked: Asked) -> Admission:
        """Judge a request; a crash of ours lets it through. What was found is not counted here."""
        verdicts = self._verdicts(asked)
        if not self.enforces:
            return Admission(verdicts)
        for one in verdicts:
            if one.level is Level.INPUT and one.verdict.outcome is Outcome.FAILED:
                return Admission(verdicts, Refusal(one.verdict.sentence, one.verdict.reason))
        adjusted = self._adjusted(asked) if self.mode in {"clamp", "reject"} else None
        if adjusted is None or not adjusted.changes:
            return Admission(verdicts)
        if self.mode == "clamp":
            return Admission(verdicts, None, adjusted)
        for finding in adjusted.refusable[:1]:
            refusal = Refusal(finding.sentence, finding.reason, finding.name)
            return Admission(verdicts, refusal)
        return Admission(verdicts)

    def _adjusted(self, asked: Asked) -> Adjusted | None:
        try:
            return self.adjust(asked.exchange())
        except Exception:  # noqa: BLE001  a broken rule must not touch the request
            self.counters.gate_skipped("adjust", "gate_crashed")
            return None

    def _verdicts(self, asked: Asked) -> tuple[GateVerdict, ...]:
        first = asked.exchange()
        found = list(self._run(self.parameter_gates, first))
        prompts = asked.prompts[1:MAX_PROMPTS]
        exchanges = [first, *(asked.exchange(i * asked.n) for i in range(1, len(prompts) + 1))]
        for exchange in exchanges:
            found = _worse(found, self._run(self.input_gates, exchange))
        found.sort(key=lambda one: one.level)
        return tuple(found)

    def _run(self, gates: Sequence[Gate], exchange: Exchange) -> tuple[GateVerdict, ...]:
        return run_gates(gates, exchange, self.budget_s, self.counters, self.clock)


_RANK = {Outcome.FAILED: 3, Outcome.SUSPECT: 2, Outcome.PASSED: 1, Outcome.UNJUDGED: 0}


def _worse(known: list[GateVerdict], new: Sequence[GateVerdict]) -> list[GateVerdict]:
    """Merge verdicts gate by gate: of several prompts the worst one counts."""
    merged = {one.gate: one for one in known}
    for one in new:
        old = merged.get(one.gate)
        if old is None or _RANK[one.verdict.outcome] > _RANK[old.verdict.outcome]:
            merged[one.gate] = one
    return list(merged.values())
