"""The gates of level 2, in the order they are asked. Pure."""

from __future__ import annotations

from quality_lib.gates.gate import Gate
from quality_lib.gates.parameter_bounds import ParameterBounds
from quality_lib.gates.parameter_conflicts import parameter_conflicts
from quality_lib.gates.parameter_penalty import parameter_penalty
from quality_lib.gates.parameter_ranges import parameter_ranges


def parameter_gates(bounds: ParameterBounds) -> tuple[Gate, ...]:
    """Return every gate of level 2."""
    return (parameter_ranges(bounds), parameter_conflicts(bounds), parameter_penalty(bounds))
