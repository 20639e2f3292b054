"""What a detector is to the matrix: learn from healthy checks, then give each check one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.matrix.recording import Check, Row

Scorer = Callable[[Check], float | None]
"""Larger is more suspicious; ``None``: this check says nothing to the method."""


@dataclass(frozen=True)
class Method:
    """One detector. Pure: the same recordings give the same scores."""

    name: str
    channels: tuple[str, ...]
    """What it asks for: its price is counted in these tokens."""
    learn: Callable[[Sequence[Check]], Scorer]
    """From healthy checks, the first of which is the reference, to a scorer."""
    source: str
    own_rule: float | None = None
    """The alarm level that its authors use, on the same scale; ``None``: they state none."""

    def tokens(self, check: Check) -> int:
        """Count the tokens that the method needs of a check, in and out."""
        return sum(r.tokens_in + r.tokens_out for r in check.rows if r.channel in self.channels)


def pairs(check: Check, reference: Check, *channels: str) -> list[tuple[Row, Row]]:
    """Return the answered rows of some channels beside those of the reference."""
    known = {row.key: row for row in reference.of(*channels)}
    return [(row, known[row.key]) for row in check.of(*channels) if row.key in known]


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return sum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation, never zero: what did not vary counts in millionths."""
    if len(values) < 2:
        return 1e-6
    centre = sum(values) / len(values)
    variance = sum((v - centre) ** 2 for v in values) / (len(values) - 1)
    return max(1e-6, math.sqrt(variance))
