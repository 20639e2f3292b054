"""Bounds that a service's own healthy answers have taught. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A two-sided bound; ``None`` on a side means that nothing bounds it."""

    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")


@dataclass(frozen=True)
class LearnedBounds:
    """What healthy answers of one service look like; every field is ``None`` until learned.

    Stored with the baseline as ``bounds.json`` and read by the gates of levels 3 and 4. Where a
    field is ``None`` a gate uses its constant and says ``"bound": "constant"`` in its evidence,
    else ``"bound": "learned"``.
    """

    window: int = 32
    """Tokens over which log-probability and entropy are averaged."""
    mean_logprob: Range | None = None
    """Of a window's mean log-probability of the chosen tokens, nats per token."""
    mean_entropy: Range | None = None
    """Of a window's mean next-token entropy, nats."""
    step_entropy: Range | None = None
    """Of the next-token entropy of one step, nats; its high side is where ``correct`` acts."""
    answer_tokens: Range | None = None
    """Tokens of a finished answer."""
    similarity: Range | None = None
    """Of two healthy answers to the same prompt and parameters, embedding cosine."""
    perplexity: Range | None = None
    """Of a window under the reference model."""
    answers: int = 0
    """Healthy answers the bounds were learned from."""
    false_alarm: float | None = None
    """At most this share of healthy answers lies beyond one side of one bound, with 95 % confidence
    and before the safety margin; how it follows from the number of prompts is in ``learn.py``."""
