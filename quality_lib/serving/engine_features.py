"""What this vLLM can do, found by looking at it and never by its version number."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.gates.level_stream import ENGINE_FINISH
from quality_lib.gates.stream_limits import StreamLimits

ENGINE_STOP = "repetition_detected"
"""The ``stop_reason`` of vLLM's own repetition detection."""

_REQUESTS = (
    ("vllm.entrypoints.openai.chat_completion.protocol", "ChatCompletionRequest"),
    ("vllm.entrypoints.openai.completion.protocol", "CompletionRequest"),
    ("vllm.entrypoints.openai.protocol", "ChatCompletionRequest"),
    ("vllm.entrypoints.openai.protocol", "CompletionRequest"),
)
"""Where the request classes lie; the last two are where older releases have them."""


@dataclass(frozen=True)
class EngineFeatures:
    """What the guard may use; all False where there is no vLLM."""

    repetition_detection: bool = False
    """Requests may ask the engine itself to stop a repetition."""


def engine_features() -> EngineFeatures:
    """Look at the vLLM of this process; never fails, what cannot be seen is False."""
    return EngineFeatures(repetition_detection="repetition_detection" in _request_fields())


def with_repetition_detection(
    params: Mapping[str, Any], limits: StreamLimits, features: EngineFeatures
) -> dict[str, Any]:
    """Return a request's fields with the engine's repetition detection asked for.

    Nothing is added when the reaction is only to observe, when the engine cannot, or when the
    caller has decided it (``null`` included).
    """
    wanted = dict(params)
    if (
        limits.reaction == "observe"
        or not features.repetition_detection
        or "repetition_detection" in wanted
    ):
        return wanted
    wanted["repetition_detection"] = {
        "max_pattern_size": limits.engine_max_pattern,
        "min_pattern_size": 1,
        "min_count": limits.engine_repeats,
    }
    return wanted


def is_engine_stop(finish_reason: str | None, stop_reason: Any = None) -> bool:
    """Return whether the engine's repetition detection ended the answer."""
    return finish_reason == ENGINE_FINISH or stop_reason == ENGINE_STOP


def _request_fields() -> set[str]:
    """Return the fields that both kinds of requests have."""
    found: list[set[str]] = []
    for module, name in _REQUESTS:
        request = getattr(_module(module), name, None)
        if request is not None:
            found.append(set(getattr(request, "model_fields", ())))
    return set.intersection(*found) if found else set()


def _module(name: str) -> Any:
    """Return a module of an installed vLLM; ``None`` when there is none, or it does not load."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001  a part of vLLM that does not load is not there
        return None
