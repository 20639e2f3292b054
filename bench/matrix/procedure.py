"""The product's whole procedure on the recordings: facts, repeats, and evidence over hours, until somebody is paged.

A year of a fault is made of its recorded checks, drawn again and again with a seed; re-checks that the procedure asks
for are drawn too. Health is fed once, in the order in which it was recorded. Pure.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from bench.decisions import decisions
from bench.faults.weight_steps import seed_of
from bench.matrix.halves import Halves
from bench.matrix.methods.product import limits_for, reading_of
from bench.matrix.recording import Check, by_kind
from bench.measures import share
from quality_lib.drift.calibrate import calibrate
from quality_lib.drift.calibration import Calibration
from quality_lib.drift.decision import decide
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.reading import CheckReading
from quality_lib.drift.sequential import SequentialState
from quality_lib.errors import NoData
from quality_lib.records import Tri

RUNS = 20
"""Simulated endpoints of each fault."""
MOST_HOURS = 200


def procedure(
    halves: Halves, reference: Check, runs: int = RUNS, most_hours: int = MOST_HOURS
) -> dict[str, Any]:
    """Return pages in health and hours until a page, by row; ``refused`` where calibration is impossible."""
    readings = [
        reading_of(check)
        for check in halves.calibration
        if check.head.check_id != reference.head.check_id
    ]
    try:
        limits = limits_for(readings)
        known = calibrate(readings, reading_of(reference), limits)
    except NoData as error:
        return {"refused": str(error)}
    one = _Endpoint(reading_of(reference), known, limits, runs, most_hours)
    return {
        "calibration_checks": len(readings),
        "calibration_is_exact": known.is_deterministic,
        "limits_lowered": limits != DriftLimits(),
        "healthy": _healthy(one, halves.healthy),
        "kinds": [
            {"number": number, "kind": kind, **_hours(one, group, f"{number} {kind}")}
            for (number, kind), group in sorted(by_kind(halves.faulty).items())
        ],
    }


@dataclasses.dataclass(frozen=True)
class _Endpoint:
    reference: CheckReading
    known: Calibration
    limits: DriftLimits
    runs: int
    most_hours: int

    def hours_until_page(self, checks: Iterator[CheckReading]) -> int | None:
        """Feed checks until a page; None: not within the most hours."""
        hours = 0
        for told in decisions(checks, self.reference, self.known, self.limits):
            hours += not told.is_recheck
            if hours > self.most_hours:
                return None
            if told.decision.pages:
                return hours
        return None


def _healthy(one: _Endpoint, healthy: Sequence[Check]) -> dict[str, Any]:
    """Feed healthy checks once; a page starts anew."""
    state, pages, unknown = SequentialState(), 0, 0
    ordered = sorted(healthy, key=lambda check: (check.head.start, check.head.at))
    for check in ordered:
        told = decide(reading_of(check), one.reference, one.known, state, one.limits)
        pages += told.pages
        unknown += told.changed is Tri.UNKNOWN
        state = SequentialState() if told.pages else told.state
    return {"pages": share(pages, len(ordered)), "unknown": unknown}


def _hours(one: _Endpoint, checks: Sequence[Check], name: str) -> dict[str, Any]:
    found = [one.hours_until_page(_endless(checks, seed_of(run, name))) for run in range(one.runs)]
    paged = sorted(hours for hours in found if hours is not None)
    return {
        "checks": len(checks),
        "paged": share(len(paged), one.runs),
        "within_an_hour": share(sum(hours <= 1 for hours in paged), one.runs),
        "median_hours": statistics.median(paged) if len(paged) > one.runs / 2 else None,
        "p90_hours": paged[math.ceil(0.9 * one.runs) - 1] if len(paged) >= 0.9 * one.runs else None,
    }


def _endless(checks: Sequence[Check], seed: int) -> Iterator[CheckReading]:
    """Give the checks of one instance of a fault again and again, each under a name of its own."""
    draws = random.Random(seed)
    fault = draws.choice(sorted({check.head.fault for check in checks}))
    readings = [reading_of(check) for check in checks if check.head.fault == fault]
    number = 0
    while True:
        number += 1
        reading = draws.choice(readings)
        yield dataclasses.replace(reading, check_id=f"{reading.check_id}#{number}")
