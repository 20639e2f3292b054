"""A check held against its reference, probe by probe, and the five statistics of a check. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from quality_lib.drift.healthy import Healthy, folds
from quality_lib.drift.reading import (
    GREEDY,
    SCORED,
    SEEDED,
    CheckReading,
    Key,
    ProbeReading,
)
from quality_lib.drift.variants import NO_VARIANTS, Variants, first_difference


class Statistic(StrEnum):
    """What is watched of a check (detection anchors, 4.3: S1 to S5); large values speak of a change."""

    MEAN_Z = "mean_z"
    """S1: every prompt moved a little."""
    MAX_Z = "max_z"
    """S2: one prompt moved much; faults that come and go."""
    SIGNED = "signed"
    """S3: all moved in one direction: temperature, penalties, context."""
    REPLAY = "replay"
    """S4: seeded answers that came out differently, beyond the healthy rate."""
    FORKS = "forks"
    """S5: greedy answers that went another way, early ones and those against a clear favourite counting more."""


OF_TEXTS: Mapping[Statistic, frozenset[str]] = {
    Statistic.REPLAY: SEEDED,
    Statistic.FORKS: GREEDY,
}
"""Statistics of what was decoded, with the channels that they look at."""

CLOSE_RACE = 0.1
"""Nats. Healthy noise turns races that are closer than this; a fork against a token so far ahead counts as much
again as one at the first token."""
MOST_GAP = 5.0
Statistics = Mapping[Statistic, float | None]
"""None: no probe of the check speaks to it."""


@dataclass(frozen=True)
class Pair:
    """One probe against its reference."""

    key: Key
    delta: float | None
    """Mean |difference| in nats per token before the first fork; infinite when a number is missing
    or the stored answer was split into other tokens; None when the first token already differs."""
    signed: float | None
    """Mean difference, None where ``delta`` is no finite number."""
    fork: int | None
    """Position of the first token that differs."""
    length: int
    """Tokens of the reference."""
    gap: float = 0.0
    """Nats by which the token that was not taken at the fork had been ahead, at least; 0 where it is not known."""

    @property
    def exposed(self) -> int:
        """Count the tokens that could have differed, up to the first that did."""
        return self.length if self.fork is None else self.fork + 1

    @property
    def fork_weight(self) -> float:
        """Weigh a fork: 1 at the first token, near 0 at the last, and more against a favourite; 0 without one."""
        if self.fork is None:
            return 0.0
        return 1.0 - self.fork / max(1, self.length) + self.gap / CLOSE_RACE


def pair_up(
    reading: CheckReading, reference: CheckReading, variants: Mapping[Key, Variants] = NO_VARIANTS
) -> tuple[Pair, ...]:
    """Pair every answered probe with the nearest of its healthy answers, the reference's being one.

    Probes that reading or reference lacks are left out.
    """
    known = reference.answered()
    return tuple(
        pair(probe, variants[key].nearest(probe, known[key]) if key in variants else known[key])
        for key, probe in reading.answered().items()
        if key in known
    )


def least_gaps(logprobs: Sequence[float | None]) -> tuple[float, ...]:
    """Return by how many nats the best token must be ahead of any other, from its own log-probability alone.

    With probability p no other has more than 1 - p: ``ln(p / (1 - p))``, and 0 below a half.
    """
    return tuple(map(_least_gap, logprobs))


def _least_gap(logprob: float | None) -> float:
    p = math.exp(logprob) if logprob is not None and logprob <= 0 else 0.0
    if p <= 0.5:
        return 0.0
    return MOST_GAP if p >= 1 else min(MOST_GAP, math.log(p / (1 - p)))


def pair(probe: ProbeReading, reference: ProbeReading) -> Pair:
    """Compare one answer with its reference (detection anchors, 4.3: d and s, paired per prompt)."""
    is_scored = probe.channel in SCORED
    fork = first_difference(probe.token_ids, reference.token_ids)
    length = len(reference.token_ids)
    if is_scored and (fork is not None or len(probe.logprobs) != len(reference.logprobs)):
        return Pair(probe.key, math.inf, None, None, length)
    end = length if fork is None else fork
    differences = []
    for now, then in zip(probe.logprobs[:end], reference.logprobs[:end], strict=False):
        if now is None and then is None:
            continue
        if now is None or then is None or not math.isfinite(now - then):
            return Pair(probe.key, math.inf, None, fork, length)
        differences.append(now - then)
    gap = 0.0 if fork is None or fork >= len(reference.gaps) else reference.gaps[fork]
    if not differences:
        return Pair(probe.key, None, None, fork, length, gap)
    return Pair(
        probe.key,
        math.fsum(map(abs, differences)) / len(differences),
        math.fsum(differences) / len(differences),
        fork,
        length,
        gap,
    )


def z_scores(pairs: Sequence[Pair], healthy: Mapping[Key, Healthy]) -> dict[Key, float]:
    """Standardise each probe's movement by its own healthy mean and spread: ``z = (folds(d) - mean) / sd``.

    The research note (detection anchors, 4.3) takes nats and cuts them at ten times the healthy 99.9 % quantile; on
    the scale of factors nothing needs to be cut. Probes without a delta or unknown in health are left out.
    """
    return {
        p.key: (folds(p.delta) - known.mean) / known.sd
        for p in pairs
        if p.delta is not None and (known := healthy.get(p.key)) is not None
    }


def statistics(pairs: Sequence[Pair], healthy: Mapping[Key, Healthy]) -> Statistics:
    """Compute the five statistics of one check (detection anchors, 4.3).

    With fewer probes than in health the mean is damped by the root of the share that answered: its
    spread then is at most the healthy one, whether the probes move together or not. Sums over forks
    are divided by the number of probes in health, so a missing one never counts as moved.
    """
    z = z_scores(pairs, healthy)
    measured = [key for key, known in healthy.items() if known.is_measured]
    share = len(z) / len(measured) if measured else 0.0
    signed = [
        (folds(p.signed) - known.signed_mean) / known.signed_sd
        for p in pairs
        if p.signed is not None and (known := healthy.get(p.key)) is not None
    ]
    return {
        Statistic.MEAN_Z: math.sqrt(min(1.0, share)) * math.fsum(z.values()) / len(z)
        if z
        else None,
        Statistic.MAX_Z: max(z.values(), default=None),
        # Stouffer et al. 1949, two-sided: a fall counts as much as a rise.
        Statistic.SIGNED: abs(math.fsum(signed)) / math.sqrt(len(signed)) if signed else None,
        Statistic.REPLAY: _over(pairs, healthy, OF_TEXTS[Statistic.REPLAY], _replay_residual),
        Statistic.FORKS: _over(pairs, healthy, OF_TEXTS[Statistic.FORKS], _fork_residual),
    }


def _over(
    pairs: Sequence[Pair],
    healthy: Mapping[Key, Healthy],
    channels: frozenset[str],
    residual: Callable[[Pair, Healthy], float],
) -> float | None:
    known = sum(key[1] in channels for key in healthy)
    found = [
        residual(p, healthy[p.key]) for p in pairs if p.key[1] in channels and p.key in healthy
    ]
    return math.fsum(found) / known if found else None


def _replay_residual(p: Pair, known: Healthy) -> float:
    """Return forked minus expected: the martingale residual of a constant hazard per token."""
    return float(p.fork is not None) - known.fork_rate * p.exposed


def _fork_residual(p: Pair, known: Healthy) -> float:
    return p.fork_weight - known.fork_weight
