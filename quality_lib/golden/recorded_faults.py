"""How far recorded faults moved the scores of each case, in healthy deviations. Pure.

Detection anchors, 4.1: the sentinel set is chosen by what it sees of faults that were really brought about.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quality_lib.drift.healthy import LEAST_MOVE
from quality_lib.drift.reading import Key
from quality_lib.golden.baseline import logprob_delta

HEALTHY = "healthy"
"""What a recording calls a check without a fault."""
LEAST_HEALTHY = 3
"""Healthy scores of one answer, the first of which the others are held against."""
SEEN_Z = 4.0
"""A case sees a fault from so many healthy deviations on."""
LARGEST_Z = 30.0
"""One fault that throws a case far out must not outweigh all others."""

FaultZ = Mapping[str, Mapping[str, float]]
"""Fault → case → how many healthy deviations the case's score moved, at the most ``LARGEST_Z``."""


@dataclass(frozen=True)
class RecordedScore:
    """One stored answer as it was scored in one recorded check."""

    case_id: str
    channel: str
    track: str
    """Checks of one track were made under the same healthy noise."""
    fault: str
    logprobs: tuple[float | None, ...]


@dataclass(frozen=True)
class HealthyScores:
    """What recorded healthy checks say of each stored answer, track by track."""

    references: Mapping[tuple[str, Key], tuple[float | None, ...]]
    spreads: Mapping[tuple[str, Key], tuple[float, float]]
    """Mean and standard deviation of the healthy movements, in nats per token."""

    @property
    def tracks(self) -> frozenset[str]:
        """The tracks with enough healthy checks."""
        return frozenset(track for track, _ in self.spreads)


def healthy_scores(rows: Iterable[RecordedScore]) -> HealthyScores:
    """Learn what health is; an answer with fewer than ``LEAST_HEALTHY`` scores is left out."""
    references: dict[tuple[str, Key], tuple[float | None, ...]] = {}
    deltas: dict[tuple[str, Key], list[float]] = defaultdict(list)
    for row in rows:
        place = _place(row)
        known = references.setdefault(place, row.logprobs)
        if known is not row.logprobs:
            deltas[place].append(logprob_delta(known, row.logprobs))
    spreads = {
        place: (statistics.fmean(found), max(LEAST_MOVE, statistics.stdev(found)))
        for place, found in deltas.items()
        if len(found) >= LEAST_HEALTHY - 1 and all(map(math.isfinite, found))
    }
    return HealthyScores(references, spreads)


def fault_z(health: HealthyScores, rows: Iterable[RecordedScore]) -> FaultZ:
    """Return how far each fault moved each case: the mean over its checks, in the channel that moved most.

    A fault of two tracks counts as two, for noise decides what can be seen of it.
    """
    moved: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        place = _place(row)
        if place not in health.spreads:
            continue
        mean, sd = health.spreads[place]
        z = (logprob_delta(health.references[place], row.logprobs) - mean) / sd
        key = (row.fault, row.track, row.case_id, row.channel)
        moved[key].append(min(LARGEST_Z, max(0.0, z)))
    tracks: dict[str, set[str]] = defaultdict(set)
    for fault, track, _, _ in moved:
        tracks[fault].add(track)
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (fault, track, case_id, _), zs in moved.items():
        name = fault if len(tracks[fault]) == 1 else f"{fault} ({track})"
        own = found[name]
        own[case_id] = max(own.get(case_id, 0.0), statistics.fmean(zs))
    return {fault: dict(cases) for fault, cases in sorted(found.items())}


def _place(row: RecordedScore) -> tuple[str, Key]:
    return row.track, (row.case_id, row.channel)
