"""Layer 1: scores that repeat bit for bit in health must go on doing so. Pure.

Detection anchors, 4.2 (L1). Scoring draws nothing; where the batch is pinned a healthy server gives the
same bits after every restart, and a single changed bit of the weights shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from quality_lib.drift.reading import SCORED, CheckReading, Key
from quality_lib.drift.variants import NO_VARIANTS, Variants


@dataclass(frozen=True)
class Bits:
    """Scores of a check held against the reference's."""

    compared: int
    """Probes of scored channels that both sides answered."""
    moved: Mapping[str, str]
    """``case/channel`` of the probes with scores that no healthy check gave, with a digest of what they are now."""
    repeats_itself: bool
    """False when two answers to one probe of this check differ: other traffic shares its batches."""

    def same_as(self, earlier: Mapping[str, str]) -> bool:
        """Whether at least one probe has moved to exactly where it had moved before."""
        return any(earlier.get(name) == digest for name, digest in self.moved.items())


def compare_bits(
    reading: CheckReading, reference: CheckReading, variants: Mapping[Key, Variants] = NO_VARIANTS
) -> Bits:
    """Compare the scores of stored answers exactly; what is one of ``variants`` has not moved.

    Where traffic that nobody saw shares a batch, an answer takes another of its healthy values, and the same one again.
    """
    known = reference.answered()
    now = {key: probe for key, probe in reading.answered().items() if key[1] in SCORED}
    both = [key for key in now if key in known]
    return Bits(
        compared=len(both),
        moved={
            f"{key[0]}/{key[1]}": _digest(now[key].logprobs)
            for key in both
            if now[key].logprobs != known[key].logprobs
            and not (key in variants and variants[key].holds(now[key].logprobs))
        },
        repeats_itself=_repeats(reading),
    )


def _repeats(reading: CheckReading) -> bool:
    first: dict[Key, tuple[float | None, ...]] = {}
    return all(
        first.setdefault(probe.key, probe.logprobs) == probe.logprobs
        for probe in reading.probes
        if probe.channel in SCORED and probe.problem is None
    )


def _digest(logprobs: tuple[float | None, ...]) -> str:
    return hashlib.sha256(repr(logprobs).encode()).hexdigest()[:16]
