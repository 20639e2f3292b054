"""Asks the reference model of many answers at once, for the gates that judge its readings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quality_lib.errors import QualityError
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.gate import Gate, GateVerdict, judge
from quality_lib.gates.reading import Reading, Readings

Pair = tuple[str, str]


class Reads(Protocol):
    """A language model that reads answers after their prompts."""

    def read(self, pairs: Sequence[Pair]) -> list[Reading]:
        """Return one reading for each (prompt, answer)."""


def pair_of(exchange: Exchange) -> Pair | None:
    """Return what the reference model reads of an exchange; None when there is no text."""
    if exchange.answer is None or not (exchange.answer.text or "").strip():
        return None
    return exchange.last_asked, exchange.answer.text or ""


def readings_of(model: Reads, exchanges: Sequence[Exchange]) -> Readings:
    """Read the answers of some exchanges, equal ones once."""
    pairs = sorted({pair for pair in map(pair_of, exchanges) if pair is not None})
    found = dict(zip(pairs, model.read(pairs), strict=True)) if pairs else {}

    def reading(exchange: Exchange) -> Reading | None:
        pair = pair_of(exchange)
        return None if pair is None else found.get(pair)

    return reading


@dataclass
class ReferenceReader:
    """Judges exchanges by what a reference model reads in them, up to a number of answers."""

    model: Reads
    gate: Callable[[Readings], Gate]
    most: int | None = None
    """Answers that are read; None: all."""
    together: int = 32
    """Exchanges that are read at once: batches are several times faster than single answers."""
    give_up: Callable[[str], None] | None = None
    """Told once when the model cannot be had, and nothing is read then; None: that is an error."""
    read: int = field(default=0, init=False)
    left_out: int = field(default=0, init=False)
    """Answers beyond ``most``."""
    _is_lost: bool = field(default=False, init=False)

    def verdicts(self, exchanges: Sequence[Exchange]) -> list[GateVerdict | None]:
        """Return one verdict for each exchange; None where nothing was read."""
        if self._is_lost:
            return [None] * len(exchanges)
        chosen = list(exchanges)
        if self.most is not None:
            chosen = chosen[: max(0, self.most - self.read)]
        try:
            gate = self.gate(readings_of(self.model, chosen))
        except (QualityError, ImportError) as error:
            if self.give_up is None:
                raise
            self.give_up(str(error))
            self._is_lost = True
            return [None] * len(exchanges)
        self.read += len(chosen)
        self.left_out += len(exchanges) - len(chosen)
        said: list[GateVerdict | None] = [judge(one, (gate,)).gates[0] for one in chosen]
        return said + [None] * (len(exchanges) - len(chosen))
