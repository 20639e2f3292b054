"""The different answers that one probe gets from a healthy server, and the nearest of them. Pure.

Kernels add up in another order when a batch holds more tokens, so a healthy score depends on who else is being
served. But it does not take any value: there are a few orders, and each gives the same bits again. On the CPU build
scores of stored answers differ by 0.02 nats a token between one request and 32, as much as after a flipped bit of the
weights; from the nearest of some healthy answers they differ by 0.001. So a movement is measured from the nearest
known answer, and what is near none of them is a change at any load (``design/019-healthy-variants.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quality_lib.drift.reading import SCORED, CheckReading, Key, ProbeReading

MOST_VARIANTS = 256
"""Kept of one probe, spread over the blocks; a block gives at least one."""
DIGITS = 6
"""Kept of a log-probability: a hundredth of what counts as a movement at all (``LEAST_MOVE``)."""
Logprobs = tuple[float | None, ...]


@dataclass(frozen=True)
class Variant:
    """One healthy answer to a probe."""

    token_ids: tuple[int, ...] = ()
    """Of a decoded answer; a scored one has those of the reference."""
    logprobs: Logprobs = ()
    """Of a scored answer; of a decoded one the tokens alone are kept."""


@dataclass(frozen=True)
class Variants:
    """The healthy answers to one probe, beside the reference's."""

    answers: tuple[Variant, ...]
    blocks: tuple[frozenset[int], ...] = ()
    """While a calibration is made: the blocks that gave each answer."""

    def without(self, block: int) -> Variants:
        """Leave out the answers that only one block gave, as if it had not been there."""
        kept = [
            (a, b)
            for a, b in zip(self.answers, self.blocks, strict=True)
            if b != frozenset({block})
        ]
        return Variants(tuple(a for a, _ in kept), tuple(b for _, b in kept))

    def holds(self, logprobs: Logprobs) -> bool:
        """Whether a healthy check gave exactly these scores, to ``DIGITS``."""
        return _rounded(logprobs) in self._known

    @cached_property
    def _known(self) -> frozenset[Logprobs]:
        return frozenset(answer.logprobs for answer in self.answers)

    @cached_property
    def _scores(self) -> NDArray[np.float64]:
        """One row an answer; a missing number is NaN."""
        return np.array([a.logprobs for a in self.answers], dtype=np.float64)

    def nearest(self, probe: ProbeReading, reference: ProbeReading) -> ProbeReading:
        """Return the reference as it would be with the nearest healthy answer in it.

        Scored answers: the smallest mean difference in nats per token. Decoded ones: the longest way together. The
        reference itself is one of the answers, and wins ties.
        """
        if probe.channel in SCORED:
            return self._nearest_scored(probe, reference)
        known = [reference.token_ids, *(a.token_ids for a in self.answers)]
        nearest = max(known, key=lambda tokens: common_prefix(probe.token_ids, tokens))
        if nearest is reference.token_ids:
            return reference
        return replace(reference, token_ids=nearest, logprobs=(), gaps=())

    def _nearest_scored(self, probe: ProbeReading, reference: ProbeReading) -> ProbeReading:
        if not self.answers or len(probe.logprobs) != self._scores.shape[1]:
            return reference
        now = np.array(probe.logprobs, dtype=np.float64)
        counted = ~np.isnan(np.array(reference.logprobs, dtype=np.float64))
        if not counted.any() or not np.isfinite(now[counted]).all():
            return reference
        known = np.vstack([
            np.array(reference.logprobs, dtype=np.float64)[counted],
            self._scores[:, counted],
        ])
        place = int(np.argmin(np.abs(known - now[counted]).mean(axis=1)))
        return (
            reference
            if place == 0
            else replace(reference, logprobs=self.answers[place - 1].logprobs)
        )


NO_VARIANTS: Mapping[Key, Variants] = {}


def variants_of(
    readings: Sequence[CheckReading], reference: CheckReading, blocks: Sequence[int]
) -> dict[Key, Variants]:
    """Collect the different answers of healthy checks; each block adds at most its share, so that all have a say.

    ``blocks``: the number of each check's block. What the reference says is left out.
    """
    each = max(1, MOST_VARIANTS // max(1, len(set(blocks))))
    known = reference.answered()
    seen: dict[Key, dict[Variant, set[int]]] = {key: {} for key in known}
    added: dict[tuple[Key, int], int] = {}
    for reading, block in zip(readings, blocks, strict=True):
        for key, probe in reading.answered().items():
            answer = _variant(probe, known[key]) if key in known else None
            if answer is None:
                continue
            if answer in seen[key]:
                seen[key][answer].add(block)
            elif added.get((key, block), 0) < each:
                added[key, block] = added.get((key, block), 0) + 1
                seen[key][answer] = {block}
    return {
        key: Variants(tuple(found), tuple(map(frozenset, found.values())))
        for key, found in seen.items()
        if found
    }


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first position at which two answers part; None when they are equal."""
    for position, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens until two answers part; one more when they end together."""
    parted = first_difference(one, other)
    return len(one) + 1 if parted is None else parted


def settled(variants: Mapping[Key, Variants], keys: Collection[Key]) -> dict[Key, Variants]:
    """Return the answers of some probes without the blocks that gave them: the finished calibration's."""
    return {key: Variants(v.answers) for key, v in variants.items() if key in keys}


def _variant(probe: ProbeReading, reference: ProbeReading) -> Variant | None:
    if probe.channel not in SCORED:
        return None if probe.token_ids == reference.token_ids else Variant(probe.token_ids)
    if probe.logprobs == reference.logprobs or len(probe.logprobs) != len(reference.logprobs):
        return None
    return Variant(logprobs=_rounded(probe.logprobs))


def _rounded(logprobs: Iterable[float | None]) -> Logprobs:
    return tuple(None if x is None else round(x, DIGITS) for x in logprobs)
