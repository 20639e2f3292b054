"""Watches numbers that come with every token, in windows, against a band. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.stream_limits import StreamLimits
from quality_lib.records import Outcome, Verdict

FLOOR = -50.0
"""An impossible token counts as this; servers write -9999 or minus infinity."""


@dataclass(frozen=True)
class Side:
    """One side of a band and what it means to lie beyond it."""

    reason: str
    meaning: str
    learned: float | None
    constant: float | None
    """Beyond it for ``windows`` windows is ``outcome``; beyond ``learned`` alone is SUSPECT."""
    outcome: Outcome
    windows: int
    is_high: bool

    def is_beyond(self, value: float, bound: float | None) -> bool:
        """Return whether a value lies beyond this side."""
        return bound is not None and (value > bound if self.is_high else value < bound)


class WindowWatch:
    """Averages a number per token over windows and holds the windows against two sides."""

    def __init__(self, name: str, window: int, sides: Sequence[Side]) -> None:
        self._name = name
        self._window = window
        self._sides = sides
        self._values: list[float] = []
        self._beyond: dict[tuple[str, str], int] = {}
        self.judged = 0
        """Whole windows seen."""

    def add(self, values: Sequence[float]) -> Iterator[Verdict]:
        """Take new values; NaN among them means that the logits held NaN."""
        self._values.extend(values)
        while len(self._values) >= self._window:
            window, self._values = self._values[: self._window], self._values[self._window :]
            yield from self._judge(math.fsum(max(v, FLOOR) for v in window) / self._window)

    def _judge(self, mean: float) -> Iterator[Verdict]:
        if math.isnan(mean):
            return
        self.judged += 1
        for side in self._sides:
            for bound, limit in (("constant", side.constant), ("learned", side.learned)):
                key = (side.reason, bound)
                if not side.is_beyond(mean, limit):
                    self._beyond[key] = 0
                    continue
                self._beyond[key] = self._beyond.get(key, 0) + 1
                if self._beyond[key] == side.windows:
                    outcome = side.outcome if bound == "constant" else Outcome.SUSPECT
                    yield self._verdict(side, outcome, mean, bound, limit)

    def _verdict(
        self, side: Side, outcome: Outcome, mean: float, bound: str, limit: float | None
    ) -> Verdict:
        return Verdict(
            outcome,
            side.reason,
            f"{side.meaning}: mean {self._name} {mean:.3g} over the last window, bound {limit:.3g}, "
            f"for {side.windows} windows of {self._window} tokens.",
            {
                "mean": round(mean, 4),
                "limit": limit,
                "bound": bound,
                "windows": side.windows,
                "window": self._window,
            },
        )


def low_of(band: Range | None) -> float | None:
    """Return the low side of a band that may not have been learned."""
    return None if band is None else band.low


def high_of(band: Range | None) -> float | None:
    """Return the high side of a band that may not have been learned."""
    return None if band is None else band.high


def entropy_sides(limits: StreamLimits, bounds: LearnedBounds) -> tuple[Side, ...]:
    """Return the sides of the entropy of the next-token distribution."""
    return (
        Side(
            "stream_entropy_high",
            "The next token is all but a guess",
            high_of(bounds.mean_entropy),
            limits.max_mean_entropy,
            Outcome.FAILED,
            limits.bad_windows,
            is_high=True,
        ),
        Side(
            "stream_entropy_low",
            "Nothing but one token is possible",
            low_of(bounds.mean_entropy),
            limits.min_mean_entropy,
            Outcome.SUSPECT,
            limits.confident_windows,
            is_high=False,
        ),
    )


def logprob_sides(limits: StreamLimits, bounds: LearnedBounds) -> tuple[Side, ...]:
    """Return the sides of the chosen tokens' log-probability."""
    return (
        Side(
            "stream_logprob_low",
            "The chosen tokens were all but impossible",
            low_of(bounds.mean_logprob),
            limits.min_mean_logprob,
            Outcome.FAILED,
            limits.bad_windows,
            is_high=False,
        ),
        Side(
            "stream_logprob_high",
            "The model is surer than in health",
            high_of(bounds.mean_logprob),
            None,
            Outcome.SUSPECT,
            limits.confident_windows,
            is_high=True,
        ),
    )
