"""All gates by level, and every reason they can give. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.gate import Gate, Level, Reason
from quality_lib.gates.input_accounting import TokenizerFacts
from quality_lib.gates.input_limits import InputLimits
from quality_lib.gates.input_scope import Similarity
from quality_lib.gates.input_size import CountTokens
from quality_lib.gates.level_input import input_gates
from quality_lib.gates.level_output import model_gates, output_gates
from quality_lib.gates.level_parameters import parameter_gates
from quality_lib.gates.level_stream import stream_gates
from quality_lib.gates.output_limits import OutputLimits
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.stream_limits import StreamLimits

WITHOUT_A_MODEL = (Level.INPUT, Level.PARAMETERS, Level.OUTPUT)
"""The levels that judge a finished exchange from its text alone."""


class GateConfig(Protocol):
    """The part of a service's gate settings that decides which gates there are and how strict."""

    @property
    def disabled(self) -> tuple[str, ...]:
        """Names of gates that are not asked."""

    @property
    def input(self) -> InputLimits:
        """Limits of level 1."""

    @property
    def parameters(self) -> ParameterBounds:
        """Bounds of level 2."""

    @property
    def stream(self) -> StreamLimits:
        """Limits of level 3."""

    @property
    def output(self) -> OutputLimits:
        """Limits of level 4."""


@dataclass(frozen=True)
class Entry:
    """One reason of one gate."""

    level: Level
    gate: str
    reason: Reason


def gates_of(
    config: GateConfig,
    bounds: LearnedBounds,
    levels: Collection[int] = WITHOUT_A_MODEL,
    *,
    count_tokens: CountTokens | None = None,
    facts: TokenizerFacts | None = None,
    similarity: Similarity | None = None,
) -> tuple[Gate, ...]:
    """Make the gates of the levels, without those that are switched off.

    What level 1 may ask besides (token counts, the tokenizer's facts, similarity) is passed on to it.
    """
    gates: list[Gate] = []
    if Level.INPUT in levels:
        gates += input_gates(
            config.input, count_tokens=count_tokens, facts=facts, similarity=similarity
        )
    if Level.PARAMETERS in levels:
        gates += parameter_gates(config.parameters)
    if Level.STREAM in levels:
        gates += stream_gates(config.stream, bounds)
    if Level.OUTPUT in levels:
        gates += output_gates(config.output, bounds)
    return tuple(gate for gate in gates if gate.name not in config.disabled)


def every_gate() -> tuple[Gate, ...]:
    """Make every gate there is with default limits, those included that need a model."""
    limits, bounds = OutputLimits(), LearnedBounds()
    # Never asked: the catalogue reads their names and reasons alone.
    of_models = model_gates(
        limits,
        bounds,
        readings=lambda _exchange: None,
        gains=lambda _exchange: None,
        alike=lambda _exchange: None,
        embed=lambda texts: tuple(() for _ in texts),
        expected=lambda _exchange: (),
    )
    scoped = InputLimits(scope_examples=("a",))
    return (
        *input_gates(scoped, similarity=lambda pairs: tuple(0.0 for _ in pairs)),
        *parameter_gates(ParameterBounds()),
        *stream_gates(StreamLimits(), bounds),
        *output_gates(limits, bounds),
        *of_models,
    )


def entries(gates: Sequence[Gate] | None = None) -> tuple[Entry, ...]:
    """List every reason of every gate, by level and in the order of asking."""
    known = every_gate() if gates is None else gates
    return tuple(Entry(gate.level, gate.name, reason) for gate in known for reason in gate.reasons)


def unknown_names(names: Collection[str]) -> tuple[str, ...]:
    """Return the names that no gate has, such as slips in ``gates.disabled``."""
    known = {gate.name for gate in every_gate()}
    return tuple(name for name in names if name not in known)
