"""The product's evidence of one check as one number: exact facts, exact scores, then the five statistics.

The statistics are weighed as the product weighs them, but their ranks among healthy checks are continued beyond the
largest one as the thresholds of all methods are, for the product's own ranks end there.

The product itself adds evidence over hours and repeats suspicious checks (``quality_lib/drift/decision.py``); this is
what a single check of it sees, so that it can be compared with the others at one threshold.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from bench.matrix.measures import BUDGET, TAIL, tail_p
from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import SCORED, Check
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.contract import breaches
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.evalue import calibrator, combine
from quality_lib.drift.evidence import BELIEVED_FOLDS, BELIEVED_SHARE
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.paired import OF_TEXTS, Statistic, least_gaps
from quality_lib.drift.reading import GREEDY, CheckReading
from quality_lib.errors import NoData

EXACT = 1e6
"""Where scores repeat bit for bit, one that moved is beyond every healthy value."""
_FOLDS = math.log(TAIL / BUDGET)
LEAST_SCALE = {
    name: (BELIEVED_SHARE if name in OF_TEXTS else BELIEVED_FOLDS) / _FOLDS for name in Statistic
}
"""Of a statistic's tail: what the product believes of a health that never moved is one false alarm in ten years, and no
infinite surprise. Set after the second medium recording: with a thousandth of it, the first healthy answer that went another
way was beyond all faults."""


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
    """Return a check as the product reads it: of what was decoded the tokens and the facts, and no scores.

    A reference tells of greedy answers how far each token was ahead.
    """
    reading = check.as_reading()
    probes = (
        probe
        if probe.channel in SCORED
        else dataclasses.replace(
            probe,
            logprobs=(),
            gaps=least_gaps(probe.logprobs) if probe.channel in GREEDY else (),
        )
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
    """Return the logarithm of the evidence against health; infinite when a fact is broken."""
    reading = reading_of(check)
    if breaches(reading, reference):
        return math.inf
    # As they were, without the room that the product leaves for unknown blocks: here the threshold is for that.
    rarity = {
        name: calibrator(tail_p(value, sorted(known.statistics[name].values), LEAST_SCALE[name]))
        for name, value in known.measure(reading, reference).items()
        if value is not None and name in known.statistics
    }
    evidence = combine(rarity, known.known)
    if evidence is None or not known.covers(reading.block):
        return None
    is_exact = known.is_exact_for(reading.block.load, reading.running)
    if is_exact and compare_bits(reading, reference, known.variants).moved:
        return EXACT + max(0.0, math.log(evidence))
    return math.log(evidence)


METHOD = Method(
    "product, one check",
    (*SCORED, "greedy", "seeded", "long_context"),
    learn,
    "quality_lib.drift: facts, exact scores, five statistics",
)
