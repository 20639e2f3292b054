"""The drift decision over simulated years: false alarms of health, and hours until a fault is told.

    python -m bench.drift_simulation [--years 50] [--faults 150] [--seed 1] [--out FILE]

Everything from the statistics of a check on is the product's own code (``quality_lib/drift``); the statistics are
drawn. Each simulated year gets a calibration of its own, so a lucky one counts as often as it happens. Five
statistics, the first three with a correlation of 0.5; a fault moves these three by so many standard deviations.
Simulated health is as regular as its generator: it shows that the procedure does what its formulas say, and how long
a fault takes; it cannot show that a real server is that regular.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.drift_health import (
    E_VALUES,
    HIT,
    NAMES,
    PROBES,
    Array,
    Health,
    Judge,
    calibrated,
    of_probes,
    table,
)
from bench.drift_watching import YEAR, Told, watch_over
from bench.measures import machine
from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.sequential import Rechecks, alarm_level

MOST_HOURS = 3000
WARM = 100
"""Healthy hours before a fault begins."""


# False alarms -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One kind of health under one way of deciding."""

    name: str
    health: Health = field(default_factory=Health)
    mode: Rechecks = Rechecks.WAIT
    kind: str = "rank"
    checks: int = 2000
    sigmas: float = 3.0
    bursts: int = 0
    counts: bool = True
    """False: shown to tell what the product does not do; it may exceed the budget."""


TRIALS = (
    Trial("independent checks, no re-checks"),
    Trial("re-checks multiplied, correlation 0", mode=Rechecks.MULTIPLY),
    Trial("re-checks multiplied, correlation 0.1", Health(recheck_correlation=0.1), Rechecks.MULTIPLY),
    Trial(
        "re-checks multiplied, correlation 0.5 (refused by the product)",
        Health(recheck_correlation=0.5), Rechecks.MULTIPLY, counts=False,
    ),
    Trial(
        "re-checks multiplied, correlation 0.9 (refused by the product)",
        Health(recheck_correlation=0.9), Rechecks.MULTIPLY, counts=False,
    ),
    Trial("whole bursts ranked, correlation 0.5", Health(recheck_correlation=0.5), Rechecks.BLOCK, bursts=200),
    Trial("whole bursts ranked, correlation 0.9", Health(recheck_correlation=0.9), Rechecks.BLOCK, bursts=200),
    Trial("calibration of 200 checks", mode=Rechecks.MULTIPLY, checks=200),
    Trial("heavy tails (t, 3 degrees)", Health(tails=3.0), Rechecks.MULTIPLY),
    Trial("blocks share 10 % of the variance for a week", Health(block_icc=0.1)),
    Trial(
        "the same, re-checks in the same block multiplied",
        Health(block_icc=0.1, recheck_correlation=0.1), Rechecks.MULTIPLY,
    ),
    Trial("blocks share 50 % of the variance for a week", Health(block_icc=0.5)),
    Trial(
        "blocks share 50 %, no room for blocks (not the product)",
        Health(block_icc=0.5), sigmas=0.0, counts=False,
    ),
    Trial("blocks differ in spread (log sd 0.3)", Health(spread=0.3)),
    Trial(
        "blocks differ in spread, no room for blocks (not the product)",
        Health(spread=0.3), sigmas=0.0, counts=False,
    ),
    Trial("conservative p-values (the note's), independent", kind="beta"),
    Trial("plain conformal p-values, calibration of 200", kind="plain", checks=200, counts=False),
)  # fmt: skip


def false_alarms(trial: Trial, years: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the alarms of healthy years, each with a calibration of its own."""
    limits, per_year = DriftLimits(), []
    for _ in range(years):
        judge = calibrated(
            rng, trial.health, trial.checks, 20, trial.kind, trial.sigmas, trial.bursts
        )
        hours = trial.health.block_hours
        checks = trial.health.checks(rng, math.ceil(YEAR / hours), hours)[:YEAR]
        none = np.zeros(len(NAMES))
        again = _recheck_of(rng, trial.health, checks, none)
        told = watch_over(judge, checks, trial.mode, limits, again)
        per_year.append(len(told.alarms))
    total = sum(per_year)
    low, high = poisson_interval(total)
    return {
        "name": trial.name,
        "is_the_product": trial.counts,
        "years": years,
        "alarms": total,
        "per_year": round(total / years, 3),
        "interval_per_year": [round(low / years, 3), round(high / years, 3)],
        "years_with_an_alarm": sum(n > 0 for n in per_year),
    }


def _recheck_of(
    rng: np.random.Generator, health: Health, checks: Array, shift: Array
) -> Callable[[int], Array]:
    return lambda hour: health.recheck(rng, checks[hour] - shift, shift)


def poisson_interval(count: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a Poisson mean (Garwood 1936)."""
    from scipy.stats import chi2

    low = float(chi2.ppf(0.025, 2 * count)) / 2 if count else 0.0
    return low, float(chi2.ppf(0.975, 2 * count + 2)) / 2


# Delays -----------------------------------------------------------------------------------------------------------


def delays(
    name: str,
    faults: int,
    rng: np.random.Generator,
    health: Health,
    shift: float,
    q: float,
    mode: Rechecks,
    kind: str,
) -> dict[str, Any]:
    """Return hours until faults that begin after ``WARM`` healthy hours are told; 1 is the first check."""
    limits, found, watched = DriftLimits(), [], []
    moved = np.array([shift, shift, shift, 0.0, 0.0])
    bursts = 200 if mode is Rechecks.BLOCK else 0
    judge = calibrated(rng, health, kind=kind, bursts=bursts)
    for number in range(faults):
        if number % 20 == 19:
            judge = calibrated(rng, health, kind=kind, bursts=bursts)
        told = _one_fault(rng, judge, health, moved, q, mode, limits)
        found.append(next((h - WARM + 1 for h in told.alarms if h >= WARM), MOST_HOURS))
        if told.watched is not None:
            watched.append(told.watched - WARM + 1)
    return {
        "name": name,
        "faults": faults,
        "p50": percentile(found, 50),
        "p90": percentile(found, 90),
        "not_told": sum(h >= MOST_HOURS for h in found),
        "watched_before": len(watched),
        "watch_p50": percentile(watched, 50) if len(watched) > faults / 2 else None,
    }


def _one_fault(
    rng: np.random.Generator,
    judge: Judge,
    health: Health,
    moved: Array,
    q: float,
    mode: Rechecks,
    limits: DriftLimits,
) -> Told:
    """Make hours in growing pieces, so that quick faults cost little."""

    def faulty(count: int) -> Array:
        if not q:
            return np.asarray(health.checks(rng, 1, count) + moved)
        z = rng.standard_normal((count, PROBES))
        z[rng.random((count, PROBES)) < q] = HIT
        return of_probes(z, rng)

    def again(hour: int) -> Array:
        # A re-check is asked for in a faulty hour; one that a healthy hour asks for before the fault
        # begins meets it a little early, which is rare.
        if health.recheck_correlation:
            return health.recheck(rng, checks[hour] - moved, moved)
        return np.asarray(faulty(1)[0])

    checks = health.checks(rng, 1, WARM)
    told = Told([], None)
    for count in (30, 170, MOST_HOURS - 200):
        checks = np.concatenate([checks, faulty(count)])
        told = watch_over(judge, checks, mode, limits, again, stop_after=WARM)
        if any(hour >= WARM for hour in told.alarms):
            break
    return told


def percentile(values: list[int], share: float) -> int:
    return int(np.percentile(values, share, method="inverted_cdf"))


def all_delays(faults: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    ways = (
        ("no re-checks", Rechecks.WAIT, "rank"),
        ("no re-checks, conservative p-values", Rechecks.WAIT, "beta"),
        ("re-checks", Rechecks.MULTIPLY, "rank"),
        ("re-checks, conservative p-values", Rechecks.MULTIPLY, "beta"),
    )
    for shift in (1.0, 2.0, 3.0, 4.0, 6.0):
        for words, mode, kind in ways:
            many = max(20, faults // 4) if shift == 1.0 else faults
            row = delays(f"{shift:g} sigma, {words}", many, rng, Health(), shift, 0.0, mode, kind)
            yield {"shift_sigma": shift, "way": words, **row}
    together = Health(recheck_correlation=0.5)
    for shift in (2.0, 3.0, 6.0):
        words = "whole bursts ranked, correlation 0.5"
        row = delays(
            f"{shift:g} sigma, {words}", faults, rng, together, shift, 0.0, Rechecks.BLOCK, "rank"
        )
        yield {"shift_sigma": shift, "way": words, **row}
    for q in (0.16, 0.05, 0.02):
        for words, mode, kind in ways[:1] + ways[2:]:
            row = delays(
                f"{q:.0%} of the probes, {words}", faults, rng, Health(probes=True), 0.0, q, mode, kind
            )  # fmt: skip
            yield {"share_hit": q, "way": words, **row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--years", type=int, default=50, help="simulated years per kind of health")
    parser.add_argument("--faults", type=int, default=150, help="simulated faults per kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    limits = DriftLimits()
    result: dict[str, Any] = {
        **machine(),
        "simulated": True,
        "years_each": args.years,
        "faults_each": args.faults,
        "seed": args.seed,
        "alarm_level": alarm_level(limits),
        "budget_per_year": limits.false_alarms_per_year,
        "largest_e_of_2000": {k: round(float(table(k, 2000)[0]), 1) for k in E_VALUES},
        "false_alarms": [],
        "delays": [],
    }
    print(f"{'health':66} {'alarms a year':>14} {'95 % interval':>16}")
    for number, trial in enumerate(TRIALS):
        row = false_alarms(trial, args.years, np.random.default_rng([args.seed, number]))
        result["false_alarms"].append(row)
        low, high = row["interval_per_year"]
        print(
            f"{trial.name:66} {row['per_year']:14.2f} {f'{low:.2f} to {high:.2f}':>16}", flush=True
        )
    print(f"\n{'fault':66} {'p50':>6} {'p90':>6} {'watch p50':>10}")
    for row in all_delays(args.faults, np.random.default_rng([args.seed, 1000])):
        result["delays"].append(row)
        print(
            f"{row['name']:66} {row['p50']:6} {row['p90']:6} {row['watch_p50'] or '-':>10}",
            flush=True,
        )
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    over = [
        row["name"]
        for row in result["false_alarms"]
        if row["is_the_product"] and row["interval_per_year"][0] > limits.false_alarms_per_year
    ]
    sys.exit(f"more false alarms than the budget allows: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
