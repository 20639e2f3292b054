"""The sentinel set: the few cases whose scores are watched for change. Pure.

Detection anchors, 4.1: about 16 cases and 1,000 scored tokens; cases that are restless in health are
left out; then always the case that adds most, by recorded faults where there are any, else by what of
the model it covers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quality_lib.errors import NoData
from quality_lib.golden.answer import Channel
from quality_lib.golden.baseline import Baseline, CaseBaseline
from quality_lib.golden.case import GoldenCase, GoldenSet

UNDECIDED = math.log(0.52)
"""A greedy token at most this likely may have had a rival nearly as likely: it flips first."""
WANTED_UNDECIDED = 4
MOST_LONG = 1
LARGEST_Z = 30.0
"""One fault that throws a case far out must not outweigh all others."""

FaultZ = Mapping[str, Mapping[str, float]]
"""Fault → case → how many healthy deviations the case's score moved."""


@dataclass(frozen=True)
class Pick:
    """One chosen case."""

    case_id: str
    why: str
    scored_tokens: int
    """Over all channels that it is scored through."""


@dataclass(frozen=True)
class Sentinel:
    """The chosen cases, in the order in which they were taken."""

    golden_digest: str
    reference_id: str
    picks: tuple[Pick, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Case → why it could not be taken at all."""

    @property
    def case_ids(self) -> tuple[str, ...]:
        """The ids, the first taken first."""
        return tuple(pick.case_id for pick in self.picks)

    @property
    def scored_tokens(self) -> int:
        """What one round scores."""
        return sum(pick.scored_tokens for pick in self.picks)


@dataclass(frozen=True)
class _Candidate:
    case: GoldenCase
    known: CaseBaseline
    features: Mapping[str, float]
    """What it covers, with the weight of each."""
    tokens: frozenset[int]
    undecided: int
    cost: int

    @property
    def is_long(self) -> bool:
        return self.known.channel is Channel.LONG_CONTEXT


def choose_sentinel(
    cases: GoldenSet, baseline: Baseline, *, count: int, tokens: int, faults: FaultZ | None = None
) -> Sentinel:
    """Choose up to ``count`` cases of at most ``tokens`` scored tokens.

    Raises:
        NoData: no case of the baseline can be scored.
    """
    dropped = _unfit(cases, baseline)
    left = [_candidate(c, baseline.cases[c.id]) for c in cases if c.id not in dropped]
    if not left:
        raise NoData("no case of the baseline can be scored, so there is no sentinel set")
    chosen: list[_Candidate] = []
    picks: list[Pick] = []
    while len(picks) < count:
        room = tokens - sum(c.cost for c in chosen)
        longs = sum(c.is_long for c in chosen)
        open_ones = [c for c in left if c.cost <= room and not (c.is_long and longs >= MOST_LONG)]
        if not open_ones:
            break
        best = max(open_ones, key=lambda c: (*_worth(c, chosen, faults), -c.cost, c.case.id))
        why = _why(best, chosen, faults)
        picks.append(Pick(best.case.id, why, best.cost))
        chosen.append(best)
        left.remove(best)
    if not picks:
        raise NoData(f"not one case can be scored with {tokens} tokens")
    return Sentinel(baseline.golden_digest, baseline.run_ids[0], tuple(picks), dropped)


def _unfit(cases: GoldenSet, baseline: Baseline) -> dict[str, str]:
    dropped = {}
    sds = {}
    for case in cases:
        known = baseline.cases.get(case.id)
        if known is None or not known.scored:
            dropped[case.id] = "its stored answer cannot be scored"
        else:
            sds[case.id] = _healthy_sd(known)
    ordered = sorted(sds.values())
    keep = len(ordered) - len(ordered) // 10
    for case_id, sd in sds.items():
        if sd > ordered[keep - 1]:
            dropped[case_id] = f"restless in health: {sd:.2g} nats per token, the top tenth"
    return dropped


def _healthy_sd(known: CaseBaseline) -> float:
    rows = [scored.deltas for scored in known.scored.values() if len(scored.deltas) > 1]
    return max((statistics.stdev(row) for row in rows), default=0.0)


def _candidate(case: GoldenCase, known: CaseBaseline) -> _Candidate:
    reference = known.reference
    scores = [x for x in reference.logprobs if x is not None]
    undecided = sum(x <= UNDECIDED for x in scores) if case.params.is_greedy else 0
    return _Candidate(
        case,
        known,
        dict(_features(case, known)),
        frozenset(reference.token_ids),
        undecided,
        sum(len(scored.logprobs) for scored in known.scored.values()),
    )


def _features(case: GoldenCase, known: CaseBaseline) -> Iterator[tuple[str, float]]:
    if known.channel is Channel.LONG_CONTEXT:
        yield "a long context", 6.0
    if case.language:
        yield f"language {case.language}", 3.0
    if case.axis:
        yield f"axis {case.axis}", 2.0
    if len(known.scored) > 1:
        yield "both ways of scoring", 2.0
    text = known.reference.text
    if any(c.isdigit() for c in text):
        yield "digits", 2.0
    if any(not c.isalnum() and not c.isspace() for c in text):
        yield "punctuation", 2.0
    if any(c.isalpha() and ord(c) > 0x24F for c in text):
        yield "a script that is not Latin", 3.0


def _coverage(one: _Candidate, chosen: Sequence[_Candidate]) -> dict[str, float]:
    """Return what a case would add, with the worth of each."""
    seen = {name for c in chosen for name in c.features}
    gains = {name: worth for name, worth in one.features.items() if name not in seen}
    near_ties = sum(c.undecided > 0 for c in chosen)
    if one.undecided and near_ties < WANTED_UNDECIDED:
        gains[_count(one.undecided, "undecided token")] = 2.0 + min(2.0, one.undecided / 4)
    known = {token for c in chosen for token in c.tokens}
    if new := len(one.tokens - known):
        gains[_count(new, "new token")] = new / 10
    return gains


def _weakest(chosen: Sequence[_Candidate], faults: FaultZ) -> tuple[float, str]:
    """Return the fault that the chosen cases see least, by Stouffer's sum over the cases."""
    if not chosen or not faults:
        return 0.0, ""
    sums = {
        fault: math.fsum(min(LARGEST_Z, z.get(c.case.id, 0.0)) for c in chosen)
        / math.sqrt(len(chosen))
        for fault, z in faults.items()
    }
    name = min(sums, key=lambda fault: (sums[fault], fault))
    return sums[name], name


def _worth(
    one: _Candidate, chosen: Sequence[_Candidate], faults: FaultZ | None
) -> tuple[float, float]:
    return (
        _weakest([*chosen, one], faults)[0] if faults else 0.0,
        math.fsum(_coverage(one, chosen).values()),
    )


def _why(one: _Candidate, chosen: Sequence[_Candidate], faults: FaultZ | None) -> str:
    parts = [name for name, _ in sorted(_coverage(one, chosen).items(), key=lambda item: -item[1])]
    adds = f"adds {', '.join(parts)}" if parts else "adds tokens of its own kind"
    if not faults:
        return adds
    before, after = _weakest(chosen, faults), _weakest([*chosen, one], faults)
    return f"the weakest fault, {after[1]}, from {before[0]:.1f} to {after[0]:.1f} sigma; {adds}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
