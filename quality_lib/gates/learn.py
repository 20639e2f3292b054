"""Learns bounds from healthy answers. Pure.

Every bound is made of one extreme value per prompt (answers to one prompt are no independent
evidence), of all n prompts. By Wilks's distribution-free tolerance limits (Annals of Mathematical
Statistics 12, 1941) at most the share ``1 - 0.05 ** (1/n)`` of further prompts from the same
population lies beyond the largest, with 95 % confidence: 5 % for n = 59, 2 % for n = 149, 1 % for
n = 299. On top comes a margin, because production prompts are another population than golden ones.
The margin has no guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from quality_lib.gates.bounds import LearnedBounds, Range

CONFIDENCE = 0.95
MIN_PROMPTS = 59
"""The fewest prompts whose extreme bounds 95 % of the population with 95 % confidence (Wilks)."""
MARGIN = 0.5
"""Share of the way from the median to the extreme that is added beyond the extreme."""
WINDOW = LearnedBounds.window


@dataclass(frozen=True)
class HealthyAnswer:
    """One answer of a service that is known to be good."""

    prompt: str
    """What tells prompts apart, such as a case id."""
    tokens: int | None = None
    """Length in tokens; ``None`` where the answer was cut or its end does not count."""
    is_cut: bool = False
    """Whether a token limit ended it."""
    logprobs: Sequence[float | None] = ()
    """Of the chosen tokens, nats."""
    entropies: Sequence[float] = ()
    """Of the next-token distributions, nats."""
    similarity: float | None = None
    """With another healthy answer to the same prompt."""
    perplexities: Sequence[float] = ()
    """Of windows, under the reference model."""


def learn(answers: Iterable[HealthyAnswer], window: int = WINDOW) -> LearnedBounds:
    """Return the bounds that these answers teach; what too few prompts showed stays ``None``."""
    given = list(answers)
    used: list[int] = []

    def extremes(values: Callable[[HealthyAnswer], Sequence[float]]) -> tuple[list[float], ...]:
        by_prompt: dict[str, list[float]] = {}
        for answer in given:
            if found := [v for v in values(answer) if math.isfinite(v)]:
                by_prompt.setdefault(answer.prompt, []).extend(found)
        if len(by_prompt) < MIN_PROMPTS:
            return [], []
        used.append(len(by_prompt))
        return [min(v) for v in by_prompt.values()], [max(v) for v in by_prompt.values()]

    surprise_low, surprise_high = extremes(lambda a: window_means(_negated(a.logprobs), window))
    entropy_low, entropy_high = extremes(lambda a: window_means(a.entropies, window))
    _, step_high = extremes(lambda a: a.entropies)
    length_low, length_high = extremes(lambda a: () if a.tokens is None else (float(a.tokens),))
    similarity_low, _ = extremes(lambda a: () if a.similarity is None else (a.similarity,))
    _, perplexity_high = extremes(lambda a: a.perplexities)

    surprise = _range(_below_by_ratio(surprise_low), _above(surprise_high))
    # Where answers were cut nobody knows how long a healthy one becomes.
    longest = None if any(a.is_cut for a in given) else _above(length_high)
    shortest = _below_by_ratio(length_low)
    return LearnedBounds(
        window=window,
        mean_logprob=None
        if surprise is None
        else Range(_negative(surprise.high), _negative(surprise.low)),
        mean_entropy=_range(_below_by_ratio(entropy_low), _above(entropy_high)),
        step_entropy=_range(None, _above(step_high)),
        answer_tokens=_range(
            None if shortest is None or shortest < 1 else float(math.floor(shortest)),
            None if longest is None else float(math.ceil(longest)),
        ),
        similarity=_range(_below(similarity_low), None),
        perplexity=_range(None, _above(perplexity_high)),
        answers=len(given),
        false_alarm=round(false_alarm_of(min(used)), 4) if used else None,
    )


def false_alarm_of(prompts: int) -> float:
    """Return the share of further prompts that may lie beyond the extreme of so many (95 % sure)."""
    return 1.0 - math.pow(1.0 - CONFIDENCE, 1.0 / prompts)


def window_means(values: Sequence[float], window: int) -> list[float]:
    """Return the means of whole windows, as the stream monitor takes them."""
    return [
        fmean(values[start : start + window])
        for start in range(0, len(values) - window + 1, window)
    ]


def _negated(logprobs: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else -value for value in logprobs]


def _above(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return _rounded(max(values) + MARGIN * (max(values) - median(values)))


def _below(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return _rounded(min(values) - MARGIN * (median(values) - min(values)))


def _below_by_ratio(values: Sequence[float]) -> float | None:
    """Return a lower bound of what is never negative: the margin is a factor, so it stays above 0."""
    if not values or min(values) <= 0.0:
        return None
    return _rounded(min(values) * (min(values) / median(values)) ** MARGIN)


def _range(low: float | None, high: float | None) -> Range | None:
    return None if low is None and high is None else Range(low, high)


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
