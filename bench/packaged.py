"""The model that comes with the project, as benchmarks and tests serve it."""

from __future__ import annotations

from pathlib import Path

from quality_lib import settings
from quality_lib.adapters.model.source import DEFAULT_SOURCE, prepare


def packaged_model() -> Path:
    """Return its folder of safetensors; the first call converts it."""
    return prepare(DEFAULT_SOURCE, settings.home() / "models").path
