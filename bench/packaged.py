"""The model that comes with the project, as benchmarks and tests serve it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.faults.adapter_folder import RANK, write_adapter
from quality_lib import settings
from quality_lib.adapters.engine.port import EngineSpec
from quality_lib.adapters.model.source import DEFAULT_SOURCE, prepare
from quality_lib.adapters.stack.local_config import ENGINE_ARGS

NAME = "chat"
BASE_NAME = "base"
"""Of the model below an adapter, which is served under ``NAME`` then."""


def packaged_model() -> Path:
    """Return its folder of safetensors; the first call converts it."""
    return prepare(DEFAULT_SOURCE, settings.home() / "models").path


@dataclass(frozen=True)
class Served:
    """What answers under ``NAME``: a model, or an adapter over it."""

    model: Path
    adapter: Path | None = None

    def spec(self, port: int, flags: Sequence[str] = ()) -> EngineSpec:
        """Return how its server is started."""
        if self.adapter is None:
            return EngineSpec(self.model, NAME, args=(*ENGINE_ARGS, *flags), port=port)
        over = ("--enable-lora", "--max-lora-rank", str(RANK), "--lora-modules", f"{NAME}={self.adapter}")  # fmt: skip
        return EngineSpec(self.model, BASE_NAME, args=(*ENGINE_ARGS, *over, *flags), port=port)


def random_adapter(model: Path, work: Path, seed: int) -> Path:
    """Return a random adapter over a model; the first call of a seed writes it."""
    folder = work / f"adapter-{seed}"
    if not folder.exists():
        write_adapter(folder, model, seed)
    return folder
