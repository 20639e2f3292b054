"""The measures of the matrix: thresholds for a yearly budget, partial areas, tokens and delay."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHECKS_PER_YEAR = 8760
BUDGET_PER_YEAR = 0.1
BUDGET = BUDGET_PER_YEAR / CHECKS_PER_YEAR
"""False alarms of one hourly check: 1.14e-5."""
PARTIAL = 0.005
"""False-alarm rate up to which the partial area is taken."""
TAIL = 0.1
"""Share of the healthy scores from which the tail is continued."""
LEAST_TAIL = 5
LEAST_P = 1e-300
GOOD_AUC = 0.999


@dataclass(frozen=True)
class Threshold:
    """Alarm above ``value``."""

    value: float
    is_extrapolated: bool
    """Whether the healthy checks are too few for the rate, so that their tail was continued."""
    healthy: int


def threshold(healthy: Sequence[float], rate: float = BUDGET) -> Threshold:
    """Return the score that healthy checks exceed with this rate.

    With at least ``1 / rate`` checks it is their quantile. With fewer the excesses above the upper tenth are
    continued as an exponential tail (peaks over threshold), its mean taken at the upper 95 % end of its
    gamma interval. Scores that are all alike have no tail: any other score exceeds them.
    """
    ordered = np.sort(np.asarray(healthy, float))
    count = len(ordered)
    if not count:
        return Threshold(math.inf, is_extrapolated=True, healthy=0)
    if count * rate >= 1:
        index = min(count - 1, math.ceil(count * (1 - rate)) - 1)
        return Threshold(float(ordered[index]), is_extrapolated=False, healthy=count)
    base_index = _tail_begin(count)
    base = float(ordered[base_index])
    excess = ordered[base_index + 1 :] - base
    if not len(excess) or excess.max() <= 0:
        return Threshold(float(ordered[-1]), is_extrapolated=count * rate < 1, healthy=count)
    scale = float(excess.sum()) / _gamma_quantile(0.05, len(excess))
    share = len(excess) / count
    value = base + scale * math.log(share / rate)
    return Threshold(max(value, float(ordered[-1])), is_extrapolated=True, healthy=count)


def tail_p(value: float, ordered: Sequence[float], least_scale: float) -> float:
    """Return how rare a healthy score of ``value`` or more is: by its rank, beyond the upper tenth continued.

    The continuation is that of ``threshold``, with the mean excess as its scale, ``least_scale`` at the least. 1
    without healthy scores.
    """
    count = len(ordered)
    place = _tail_begin(count)
    if not count or value <= ordered[place]:
        return (count - bisect_left(ordered, value) + 1) / (count + 1)
    base, excess = ordered[place], [x - ordered[place] for x in ordered[place + 1 :]]
    scale = max(least_scale, math.fsum(excess) / len(excess) if excess else 0.0)
    return max(LEAST_P, (len(excess) + 1) / (count + 1) * math.exp(-(value - base) / scale))


def _tail_begin(count: int) -> int:
    """Return the place in sorted scores behind which the tail lies: the upper tenth, ``LEAST_TAIL`` at the least."""
    return max(0, min(count - LEAST_TAIL - 1, int(count * (1 - TAIL))))


def _gamma_quantile(probability: float, shape: int) -> float:
    from scipy.stats import gamma

    return float(gamma.ppf(probability, shape))


def hits(scores: Sequence[float], limit: float) -> int:
    """Count the scores above the limit."""
    return sum(score > limit for score in scores)


def partial_auc(
    bad: Sequence[float], healthy: Sequence[float], rate: float = PARTIAL
) -> float | None:
    """Return the area under the ROC curve up to a false-alarm rate, standardised so that 0.5 is chance.

    McClish 1989. Ties count half, as in the whole area. None without data.
    """
    worse, better = np.asarray(bad, float), np.asarray(healthy, float)
    if not len(worse) or not len(better):
        return None
    limits = np.unique(np.concatenate((worse, better)))[::-1]
    false = np.concatenate(([0.0], [(better >= limit).mean() for limit in limits]))
    true = np.concatenate(([0.0], [(worse >= limit).mean() for limit in limits]))
    inside = false <= rate
    last = int(inside.sum()) - 1
    xs, ys = list(false[: last + 1]), list(true[: last + 1])
    if last + 1 < len(false) and xs[-1] < rate:
        slope = (true[last + 1] - true[last]) / (false[last + 1] - false[last])
        xs.append(rate)
        ys.append(float(true[last] + slope * (rate - false[last])))
    area = float(np.trapezoid(ys, xs))
    chance, best = rate * rate / 2, rate
    return 0.5 * (1 + (area - chance) / (best - chance))


def auc(bad: Sequence[float], healthy: Sequence[float]) -> float | None:
    """Return the whole area, ties counted half; None without data."""
    worse, better = np.asarray(bad, float), np.asarray(healthy, float)
    if not len(worse) or not len(better):
        return None
    wins = (worse[:, None] > better[None, :]) + 0.5 * (worse[:, None] == better[None, :])
    return float(wins.mean())


def tokens_to(areas: Mapping[int, float | None], wanted: float = GOOD_AUC) -> int | None:
    """Return the fewest tokens from which on every larger budget reaches the area; None: never."""
    best: int | None = None
    for tokens in sorted(areas, reverse=True):
        area = areas[tokens]
        if area is None or area < wanted:
            break
        best = tokens
    return best


def delay(found: int, asked: int) -> dict[str, float | None]:
    """Return the checks until the first alarm, as quantiles, when each check finds the fault alike.

    Geometric from the share that was found; with none found no number is given, and with all found it is 1.
    """
    if not found or not asked:
        return {"p50": None, "p90": None, "p99": None}
    share = found / asked
    return {
        f"p{percent}": 1.0
        if share >= 1
        else float(max(1, math.ceil(math.log(1 - percent / 100) / math.log(1 - share))))
        for percent in (50, 90, 99)
    }


def cleaned(scores: Sequence[float | None]) -> tuple[list[float], int]:
    """Return the scores that are numbers, infinite ones included, and how many are missing."""
    kept = [float(s) for s in scores if s is not None and not math.isnan(s)]
    return kept, len(scores) - len(kept)


def rounded(value: float | None, digits: int = 4) -> Any:
    """Return a value for JSON: rounded, and infinite ones in words."""
    if value is None:
        return None
    return round(value, digits) if math.isfinite(value) else str(value)
