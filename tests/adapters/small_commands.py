"""Command builders that start the small server instead of vLLM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from quality_lib.adapters.engine.port import EngineSpec

_SCRIPT = Path(__file__).with_name("small_server.py")


def small_server(*modes: str) -> Callable[[EngineSpec, int], tuple[str, ...]]:
    def command(spec: EngineSpec, port: int) -> tuple[str, ...]:
        return (sys.executable, str(_SCRIPT), str(port), spec.served_name, *modes)

    return command
