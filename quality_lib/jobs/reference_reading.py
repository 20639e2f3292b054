"""Asks the reference model of many answers at once, for the gates that judge its readings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quality_lib.adapters.model.cached_similarity import CachedSimilarity
from quality_lib.adapters.model.embeddings import BUILTIN
from quality_lib.errors import BadInput, QualityError
from quality_lib.exchanges.exchange import Exchange
from quality_lib.gates.answer_view import shared_view
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, GateVerdict, judge
from quality_lib.gates.input_scope import Similarity
from quality_lib.gates.level_output import model_gates
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.reading import Alike, Gains, Reading, Readings
from quality_lib.gates.relevance import gain_of, head_of, may_tell

Pair = tuple[str, str]
NO_PROMPT = ""
REFERENCE_GATES = ("coherence", "unfinished", "relevance")
"""Gates that judge what a reference model reads."""


class Reads(Protocol):
    """A language model that reads answers after their prompts."""

    def read(self, pairs: Sequence[Pair]) -> list[Reading]:
        """Return one reading for each (prompt, answer)."""


def pair_of(exchange: Exchange) -> Pair | None:
    """Return what the reference model reads of an exchange; None when there is no text."""
    if exchange.answer is None or not (exchange.answer.text or "").strip():
        return None
    return exchange.asked, exchange.answer.text or ""


def readings_of(model: Reads, exchanges: Sequence[Exchange]) -> Readings:
    """Read the answers of some exchanges, equal ones once."""
    pairs = sorted({pair for pair in map(pair_of, exchanges) if pair is not None})
    found = dict(zip(pairs, model.read(pairs), strict=True)) if pairs else {}

    def reading(exchange: Exchange) -> Reading | None:
        pair = pair_of(exchange)
        return None if pair is None else found.get(pair)

    return reading


def gains_of(model: Reads, exchanges: Sequence[Exchange], readings: Readings) -> Gains:
    """Read the heads of answers once more, without their prompts, where that may tell something."""
    view = shared_view()
    asked: dict[Pair, Reading] = {}
    for exchange in exchanges:
        pair, reading, answer = pair_of(exchange), readings(exchange), view(exchange)
        if pair is None or reading is None or answer is None or pair in asked:
            continue
        if may_tell(answer, reading):
            asked[pair] = reading
    heads = sorted({head_of(text) for _, text in asked})
    alone = dict(zip(heads, model.read([(NO_PROMPT, head) for head in heads]), strict=True))
    found = {pair: gain_of(reading, alone[head_of(pair[1])]) for pair, reading in asked.items()}

    def gain(exchange: Exchange) -> float | None:
        pair = pair_of(exchange)
        return None if pair is None else found.get(pair)

    return gain


def alike_of(embedding_model: str) -> Alike | None:
    """Compare prompt and answer by a model's embeddings; None where the packaged one is not installed.

    Raises:
        BadInput: another model was named, and it is not there.
    """
    try:
        return alike_by(CachedSimilarity(embedding_model))
    except BadInput:
        if embedding_model != BUILTIN:
            raise
        return None


def alike_by(similarity: Similarity) -> Alike:
    """Compare prompt and answer by their embeddings; where these cannot be had nothing is said."""
    is_lost = False

    def alike(exchange: Exchange) -> float | None:
        nonlocal is_lost
        pair = pair_of(exchange)
        if pair is None or is_lost:
            return None
        try:
            return similarity([(pair[0], head_of(pair[1]))])[0]
        except ImportError:
            is_lost = True
            return None

    return alike


@dataclass(frozen=True)
class ReferenceGates:
    """Makes the gates that judge what a reference model reads in some exchanges."""

    limits: OutputLimits
    bounds: LearnedBounds
    alike: Alike | None = None
    """None: relevance is not asked."""
    names: Collection[str] = REFERENCE_GATES

    def __call__(self, model: Reads, exchanges: Sequence[Exchange]) -> tuple[Gate, ...]:
        """Read the exchanges and return the gates that were chosen."""
        readings = readings_of(model, exchanges)
        gains = None
        if self.alike is not None and "relevance" in self.names:
            gains = gains_of(model, exchanges, readings)
        made = model_gates(
            self.limits, self.bounds, readings=readings, gains=gains, alike=self.alike
        )
        return tuple(gate for gate in made if gate.name in self.names)


@dataclass
class ReferenceReader:
    """Judges exchanges by what a reference model reads in them, up to a number of answers."""

    model: Reads
    gates: Callable[[Reads, Sequence[Exchange]], Sequence[Gate]]
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

    def verdicts(self, exchanges: Sequence[Exchange]) -> list[tuple[GateVerdict, ...]]:
        """Return what the gates say of each exchange; nothing where it was not read."""
        if self._is_lost:
            return [()] * len(exchanges)
        chosen = list(exchanges)
        if self.most is not None:
            chosen = chosen[: max(0, self.most - self.read)]
        try:
            gates = self.gates(self.model, chosen)
        except (QualityError, ImportError) as error:
            if self.give_up is None:
                raise
            self.give_up(str(error))
            self._is_lost = True
            return [()] * len(exchanges)
        self.read += len(chosen)
        self.left_out += len(exchanges) - len(chosen)
        said = [judge(one, gates).gates for one in chosen]
        return said + [()] * (len(exchanges) - len(chosen))
