"""Layer 3: worse, or only different? Bounded quality scores with a tolerance. Pure.

Detection anchors, 4.4. It names the severity of a change and is no detector: a fall from 0.95 to 0.75
takes a working day of hourly checks, and a burst of re-checks brings gross ones under an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

BETS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class Severity(StrEnum):
    """What a change means for users."""

    SAME = "same"
    DEGRADED = "degraded"
    GARBAGE = "garbage"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Quality:
    """Quality scores of one check beside their healthy means; all in [0, 1], 1 the best.

    Such as the share of checkable prompts that passed, and the similarity with the stored answers.
    """

    scores: Mapping[str, float]
    healthy: Mapping[str, float]


def next_severity(
    state: Mapping[str, tuple[float, ...]],
    quality: Quality,
    tolerance: float,
    is_recheck: bool = False,
    multiplies: bool = False,
) -> dict[str, tuple[float, ...]]:
    """Bet on every score lying below its healthy mean minus the tolerance.

    ``R = (1 + R) * (1 + bet * (mu0 - score))`` for each bet by itself (Waudby-Smith and Ramdas, J. Royal
    Statistical Society B 86, 2024; as an e-detector Shin et al. 2024). A bet above ``1 / (1 - mu0)``
    could lose more than all and is left out. A re-check multiplies where it may, else adds nothing.
    """
    after = dict(state)
    for name, score in quality.scores.items():
        healthy = quality.healthy.get(name)
        if healthy is None or not 0 <= score <= 1:
            continue
        limit = healthy - tolerance
        bets = bets_for(limit)
        if not bets:
            continue
        past = state.get(name, ())
        past = past if len(past) == len(bets) else (0.0,) * len(bets)
        gains = [1.0 + bet * (limit - score) for bet in bets]
        if not is_recheck:
            after[name] = tuple((1.0 + r) * gain for r, gain in zip(past, gains, strict=True))
        elif multiplies:
            after[name] = tuple(r * gain for r, gain in zip(past, gains, strict=True))
    return after


def bets_for(limit: float) -> tuple[float, ...]:
    """Return the bets that cannot lose more than all; none where no score can lie below the limit."""
    if limit <= 0:
        return ()
    return tuple(bet for bet in BETS if bet * (1.0 - limit) <= 1.0)


def evidence(rows: tuple[float, ...]) -> float:
    """Return the evidence for one score: the mean over the bets."""
    return math.fsum(rows) / len(rows) if rows else 0.0


def fallen(state: Mapping[str, tuple[float, ...]], level: float) -> tuple[str, ...]:
    """Return the scores that have fallen for certain; several share the budget of one."""
    return tuple(
        sorted(name for name, rows in state.items() if evidence(rows) >= level * len(state))
    )
