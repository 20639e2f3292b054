"""The gates as ``quality check`` asks them: levels 1, 2 and the part of 4 that needs no model, with built-in defaults."""

from __future__ import annotations

from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.catalogue import WITHOUT_A_MODEL, gates_of
from quality_lib.gates.gate import Gate
from quality_lib.settings import GateSettings


def gates_by_level() -> dict[str, tuple[Gate, ...]]:
    settings = GateSettings()
    return {
        str(int(level)): gates_of(settings, LearnedBounds(), (level,)) for level in WITHOUT_A_MODEL
    }
