"""The product's statistics as one number of one check: exact facts, exact scores, then the largest of the five.

The product itself adds evidence over hours and repeats suspicious checks (``quality_lib/drift/decision.py``); this is
what a single check of it sees, so that it can be compared with the others at one threshold.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import SCORED, Check
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import breaches
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import pair_up, statistics
from quality_lib.drift.reading import CheckReading
from quality_lib.errors import NoData

EXACT = 1e6
"""Where scores repeat bit for bit, one that moved is beyond every healthy value."""
LEAST_SD = 1e-3


def learn(healthy: Sequence[Check]) -> Scorer:
    """Calibrate on the healthy checks with the first as reference; too few of them: no score at all."""
    reference = reading_of(healthy[0])
    readings = [reading_of(check) for check in healthy[1:]]
    try:
        known = calibrate(readings, reference, limits_for(readings))
    except NoData:
        return lambda check: None
    return lambda check: score(check, reference, known)


def reading_of(check: Check) -> CheckReading:
    """Return a check as the product reads it: of what was decoded the tokens and the facts, and no scores."""
    reading = check.as_reading()
    probes = (
        probe if probe.channel in SCORED else dataclasses.replace(probe, logprobs=())
        for probe in reading.probes
    )
    return dataclasses.replace(reading, probes=tuple(probes))


def limits_for(readings: Sequence[CheckReading]) -> DriftLimits:
    """Return the product's limits, lowered as far as a short recording needs."""
    blocks = len({reading.block for reading in readings})
    starts = len({reading.block.start for reading in readings})
    usual = DriftLimits()
    return dataclasses.replace(
        usual,
        min_checks=max(1, min(usual.min_checks, len(readings))),
        min_blocks=max(2, min(usual.min_blocks, blocks)),
        min_starts=max(1, min(usual.min_starts, starts)),
    )


def score(check: Check, reference: CheckReading, known: Calibration) -> float | None:
    """Return how far outside health the check is; infinite when a fact is broken."""
    reading = reading_of(check)
    if breaches(reading, reference):
        return math.inf
    pairs = pair_up(reading, reference)
    standardised = [
        (value - health.mean) / max(LEAST_SD, health.sd)
        for name, value in statistics(pairs, known.healthy).items()
        if value is not None and (health := known.statistics.get(name)) is not None
    ]
    if not standardised:
        return None
    moved = known.is_deterministic and bool(compare_bits(reading, reference).moved)
    return max(standardised) + (EXACT if moved else 0.0)


METHOD = Method(
    "product, one check",
    (*SCORED, "greedy", "seeded", "long_context"),
    learn,
    "quality_lib.drift: facts, exact scores, five statistics",
)
