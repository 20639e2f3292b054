"""Bounds of level 2, with their defaults. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True)
class ParameterBounds:
    """Where sampling parameters must lie; what is not sent is not judged."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: Literal["observe", "clamp", "reject"] = "observe"
    """``observe`` tells, ``clamp`` puts the nearest allowed value in its place, ``reject`` refuses."""
    temperature: tuple[float, float] = (0.1, 1.2)
    """Exactly 0 is always allowed. Above, rare tokens come up and text falls apart (sglang#771)."""
    top_p: tuple[float, float] = (0.7, 1.0)
    """Not judged with greedy sampling, which ignores it."""
    top_k: tuple[int, int] = (1, 1_000_000)
    """0 and -1 switch it off and are always allowed. No report of harm from any value: excludes none."""
    min_p: tuple[float, float] = (0.0, 0.5)
    """Above a half at most one token is left, so sampling is greedy without saying so."""
    presence_penalty: tuple[float, float] = (-0.5, 1.5)
    """Makers of models recommend up to 1.5; negative values reward what was said already."""
    frequency_penalty: tuple[float, float] = (-0.5, 1.0)
    repetition_penalty: tuple[float, float] = (0.9, 1.3)
    """CTRL (arXiv 1909.05858) found 1.2 to work; far above, words must not come twice."""
    max_tokens: tuple[int, int] = (1, 131_072)
    n: tuple[int, int] = (1, 16)
    greedy_below: float = 0.01
    """A temperature above 0 and below this becomes exactly 0. vLLM lifts it to 0.01 or overflows in half
    precision, by version (vllm#3063, TensorRT-LLM#15715); nobody gets what was asked."""
    max_structured_repetition: float = 1.05
    """Repetition penalty above which JSON or a tool call suffers: quotes and braces must repeat."""
    max_structured_frequency: float = 0.1
    """Frequency penalty, likewise."""
    max_accumulated_penalty: float = 10.0
    """Nats by which a frequency penalty may have lowered the commonest word (one token in 25) when the
    answer ends. Far above, function words run out and word lists remain (tale#88)."""
    context_temperature: float | None = None
    """Requests for code or JSON get at most this temperature; None switches it off."""

    def __post_init__(self) -> None:
        for name in _RANGES:
            low, high = getattr(self, name)
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ValueError(
                    f"{name} must be [low, high] with low <= high, not [{low}, {high}]"
                )
        if not 0 <= self.greedy_below <= 0.1:
            raise ValueError("greedy_below must lie between 0 and 0.1")
        if self.context_temperature is not None and not 0 <= self.context_temperature <= 2:
            raise ValueError("context_temperature must lie between 0 and 2, or be null")


_RANGES = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "max_tokens", "n",
)  # fmt: skip
