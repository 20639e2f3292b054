"""Whether requests go where the weights say, and whether the new instances serve them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from quality_lib.drift.rate import chance_of_at_least
from quality_lib.records import Tri
from quality_lib.rollout.ports import FULL, RouteTable, Served

FALSE_ALARM = 1e-4
"""Chance with which a right split would be called wrong; a rollback has a handful of moves."""

FAULT_SHARE = 0.01
"""Share of failed requests that a new instance may have: what is proven to be above it is too much."""

FAULT_ALARM = 0.0101
"""Chance with which a share of exactly that would be called too much: a single failure of a single
request is enough, one of twenty is not."""

LEAST = 20
"""Fewer requests than this say nothing of a split."""


@dataclass(frozen=True)
class Finding:
    """One answer with its sentence."""

    state: Tri
    """YES: as it should be; NO: not; UNKNOWN: too few requests to say."""
    sentence: str


def judge_split(table: RouteTable, served: Mapping[str, Served], fresh: Collection[str]) -> Finding:
    """Hold the requests that the new instances got against their weight, by the exact binomial test.

    A backend without weight that got any request is wrong however few there are, except those that
    were led to it by header, which the route does not count as split.
    """
    counts = {b.name: served[b.name].requests if b.name in served else 0 for b in table.backends}
    rows = sum(counts.values())
    stray = {b.name: counts[b.name] for b in table.backends if b.weight == 0 and counts[b.name]}
    wanted = sum(b.weight for b in table.backends if b.name in fresh) / FULL
    hits = sum(count for name, count in counts.items() if name in fresh)
    told = f"{hits} of {rows} requests went to the target, by weight {wanted:.0%} should"
    if stray:
        names = ", ".join(f"{name} ({count})" for name, count in stray.items())
        return Finding(Tri.NO, f"requests reached backends without weight: {names}; {told}")
    if rows < LEAST:
        return Finding(Tri.UNKNOWN, f"{told}: too few to judge the split")
    too_many = chance_of_at_least(hits, rows, wanted)
    too_few = chance_of_at_least(rows - hits, rows, 1 - wanted)
    is_off = min(too_many, too_few) <= FALSE_ALARM / 2
    return Finding(Tri.NO if is_off else Tri.YES, told)


def judge_faults(served: Mapping[str, Served], fresh: Collection[str]) -> Finding:
    """Say whether the new instances fail or cut more requests than an instance may."""
    rows = sum(one.requests for name, one in served.items() if name in fresh)
    bad = sum(one.failed + one.cut for name, one in served.items() if name in fresh)
    told = f"{bad} of {rows} requests on the target failed or were cut"
    if rows == 0:
        return Finding(Tri.UNKNOWN, "no request has ended on the target yet")
    is_bad = chance_of_at_least(bad, rows, FAULT_SHARE) <= FAULT_ALARM
    return Finding(Tri.NO if is_bad else Tri.YES, told)
