"""What a reference model said of a text, token by token. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quality_lib.exchanges.exchange import Exchange


@dataclass(frozen=True)
class Reading:
    """The answer after its prompt, in the reference model's own tokens."""

    logprobs: tuple[float, ...]
    """Of every token, in nats."""
    entropies: tuple[float, ...]
    """Of the model's choice at each of them: how much of the surprise was to be expected."""
    closing: float | None = None
    """Log-probability that the text ends behind them, or its line or sentence, nats; None: not known."""


Readings = Callable[[Exchange], Reading | None]
"""Gives the reading of an exchange's answer; None: it was not read."""
Gains = Callable[[Exchange], float | None]
"""Gives the log-probability in nats that its prompt adds to the head of an answer; None: not asked."""
Alike = Callable[[Exchange], float | None]
"""Gives the embedding cosine of prompt and answer; None: no model can tell."""
