"""The sentinel set: the few cases whose scores are watched for change. Pure.

Detection anchors, 4.1: about 16 cases and 1,000 scored tokens; cases that are restless in health are
left out; then always the case that adds most, by recorded faults where there are any, else by what of
the model it covers. A fault counts as seen by Stouffer's sum over the chosen cases, so a case that sees
nothing costs something.
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
from quality_lib.golden.recorded_faults import LARGEST_Z, SEEN_Z, FaultZ

UNDECIDED = math.log(0.52)
"""A greedy token at most this likely may have had a rival nearly as likely: it flips first."""
WANTED_UNDECIDED = 4
WANTED_SEEDED = 4
"""A sampler that draws otherwise moves no score: only seeded answers tell of it."""
MOST_LONG = 1
MOST_NAMES = 3
"""Faults that are named where there are many."""


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
    unseen: tuple[str, ...] = ()
    """Recorded faults that no case sees, so that they could not choose."""

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

    @property
    def is_seeded(self) -> bool:
        return self.known.channel is Channel.SEEDED


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
    visible = {name: z for name, z in (faults or {}).items() if _is_visible(z, left)}
    unseen = tuple(sorted((faults or {}).keys() - visible.keys()))
    sight = _Sight(visible)
    chosen: list[_Candidate] = []
    picks: list[Pick] = []
    while len(picks) < count:
        room = tokens - sum(c.cost for c in chosen)
        longs = sum(c.is_long for c in chosen)
        open_ones = [c for c in left if c.cost <= room and not (c.is_long and longs >= MOST_LONG)]
        if not open_ones:
            break
        # The last places are kept for seeded answers: no score sees a sampler, so no recorded fault asks for one.
        if count - len(picks) <= min(WANTED_SEEDED, count // 4) - _seeded(chosen):
            open_ones = [c for c in open_ones if c.is_seeded] or open_ones
        best = max(open_ones, key=lambda c: (*_worth(c, chosen, sight), -c.cost, c.case.id))
        picks.append(Pick(best.case.id, _why(best, chosen, sight), best.cost))
        chosen.append(best)
        sight.take(best)
        left.remove(best)
    if not picks:
        raise NoData(f"not one case can be scored with {tokens} tokens")
    return Sentinel(baseline.golden_digest, baseline.run_ids[0], tuple(picks), dropped, unseen)


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
    if one.is_seeded and _seeded(chosen) < WANTED_SEEDED:
        gains["a seeded answer"] = 3.0
    known = {token for c in chosen for token in c.tokens}
    if new := len(one.tokens - known):
        gains[_count(new, "new token")] = new / 10
    return gains


def _seeded(cases: Sequence[_Candidate]) -> int:
    return sum(c.is_seeded for c in cases)


class _Sight:
    """What the chosen cases see of each recorded fault, by Stouffer's sum over them."""

    def __init__(self, faults: FaultZ) -> None:
        self.faults = faults
        self._sums = dict.fromkeys(faults, 0.0)
        self._seen: set[str] = set()
        self._cases = 0

    def take(self, one: _Candidate) -> None:
        """Count a case among the chosen ones."""
        self._seen.update(self.new(one))
        self._sums = {fault: z * math.sqrt(self._cases + 1) for z, fault in self.after(one)}
        self._cases += 1

    def after(self, one: _Candidate) -> list[tuple[float, str]]:
        """Return what all would see with one more case."""
        root = math.sqrt(self._cases + 1)
        return [
            ((self._sums[fault] + _seen(one, z)) / root, fault) for fault, z in self.faults.items()
        ]

    def weakest(self) -> float:
        """Return the sum of the fault that is seen least; 0 while nothing is chosen."""
        return min(self._sums.values()) / math.sqrt(self._cases) if self._cases else 0.0

    def new(self, one: _Candidate) -> list[str]:
        """Return the faults that no chosen case sees by itself, and this one does."""
        return [
            f for f, z in self.faults.items() if f not in self._seen and _seen(one, z) >= SEEN_Z
        ]


def _seen(one: _Candidate, z: Mapping[str, float]) -> float:
    return min(LARGEST_Z, z.get(one.case.id, 0.0))


def _is_visible(z: Mapping[str, float], cases: Sequence[_Candidate]) -> bool:
    """Whether one case sees the fault, or all that were recorded under it do together."""
    found = [_seen(c, z) for c in cases if c.case.id in z]
    return bool(found) and max(*found, math.fsum(found) / math.sqrt(len(found))) >= SEEN_Z


def _worth(
    one: _Candidate, chosen: Sequence[_Candidate], sight: _Sight
) -> tuple[float, float, float]:
    """Return what a case would bring: the weakest fault, then all of them up to where they count as seen."""
    coverage = math.fsum(_coverage(one, chosen).values())
    if not sight.faults:
        return 0.0, 0.0, coverage
    after = sight.after(one)
    return min(after)[0], math.fsum(min(SEEN_Z, z) for z, _ in after), coverage


def _why(one: _Candidate, chosen: Sequence[_Candidate], sight: _Sight) -> str:
    parts = [name for name, _ in sorted(_coverage(one, chosen).items(), key=lambda item: -item[1])]
    adds = f"adds {', '.join(parts)}" if parts else "adds tokens of its own kind"
    if not sight.faults:
        return adds
    new = sight.new(one)
    shown = ", ".join([*new[:MOST_NAMES], *(["…"] if len(new) > MOST_NAMES else [])])
    more = f"sees {_count(len(new), 'more fault')} ({shown})" if new else "sees no further fault"
    z, fault = min(sight.after(one))
    return (
        f"{more}; the weakest fault, {fault}, from {sight.weakest():.1f} to {z:.1f} sigma; {adds}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
