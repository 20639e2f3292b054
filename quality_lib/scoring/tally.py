"""Counts of judged answers that add up over rows and partitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from quality_lib.drift.rate import Rate, weighted_rate
from quality_lib.gates.gate import Judgement, Level
from quality_lib.records import Outcome

CRASHED = "gate_crashed"
"""Reason of a gate that raised; see ``gates/gate.py``."""
MOST_GROUPS = 200
"""Groups of one kind that are told apart; the rest are one group, so that memory stays bounded."""
REST = "(all others)"
UNKNOWN = "(not recorded)"


class Kind(StrEnum):
    """By what answers are grouped."""

    SERVICE = "service"
    MODEL = "model"
    INSTANCE = "instance"
    SNAPSHOT = "snapshot"
    STRATUM = "stratum"


@dataclass(frozen=True)
class Tally:
    """One group of answers; every field adds up. A row is a request, however many choices it has."""

    rows: int = 0
    judged: int = 0
    """Rows of which at least one gate of an answer could say something."""
    low: int = 0
    """Judged rows with a gate of an answer that FAILED."""
    suspect: int = 0
    weight: float = 0.0
    """Sum over judged rows of the requests that each stands for."""
    weight_squares: float = 0.0
    low_weight: float = 0.0
    """The same over low rows; a row counts with the share of its judged choices that are low."""
    suspect_weight: float = 0.0
    crashed: int = 0
    """Rows with a gate that crashed."""
    requests_flagged: int = 0
    """Rows whose request failed or was suspect (levels 1 and 2): the caller's doing, no bad answer."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows,
            self.judged + other.judged,
            self.low + other.low,
            self.suspect + other.suspect,
            self.weight + other.weight,
            self.weight_squares + other.weight_squares,
            self.low_weight + other.low_weight,
            self.suspect_weight + other.suspect_weight,
            self.crashed + other.crashed,
            self.requests_flagged + other.requests_flagged,
        )

    def low_rate(self, confidence: float = 0.95) -> Rate | None:
        """Estimate the share of low-quality answers in all exchanges of the group."""
        return weighted_rate(
            self.judged, self.weight, self.weight_squares, self.low_weight, confidence
        )

    def suspect_rate(self, confidence: float = 0.95) -> Rate | None:
        """Estimate the share of answers that are suspect and not worse."""
        return weighted_rate(
            self.judged, self.weight, self.weight_squares, self.suspect_weight, confidence
        )


@dataclass(frozen=True)
class Group:
    """A named group with its tally."""

    kind: Kind
    name: str
    tally: Tally


@dataclass(frozen=True)
class ReasonCount:
    """How many requests one reason code was given with one outcome, and the weight of those choices."""

    code: str
    gate: str
    level: int
    outcome: Outcome
    rows: int
    weight: float


@dataclass(frozen=True)
class Score:
    """What the gates made of one exchange, seen from the answer."""

    outcome: Outcome
    """Of the gates that judge the answer (levels 3 and 4); levels 1 and 2 judge the caller."""
    request: Outcome
    judgement: Judgement
    has_crashed: bool

    @property
    def is_low(self) -> bool:
        """Whether the answer counts as low quality."""
        return self.outcome is Outcome.FAILED


def score_of(judgement: Judgement) -> Score:
    """Split a judgement into the answer's and the request's part."""
    answer: list[Outcome] = []
    request: list[Outcome] = []
    for said in judgement.gates:
        (answer if said.level >= Level.STREAM else request).append(said.verdict.outcome)
    return Score(
        outcome=_worst(answer),
        request=_worst(request),
        judgement=judgement,
        has_crashed=any(said.verdict.reason == CRASHED for said in judgement.gates),
    )


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    found = set(outcomes)
    for outcome in (Outcome.FAILED, Outcome.SUSPECT, Outcome.PASSED):
        if outcome in found:
            return outcome
    return Outcome.UNJUDGED


def tally_of(scores: Sequence[Score], weight: float) -> Tally:
    """Return the tally of one row: the choices of one request.

    They share a prompt, a server and a moment, so they are one observation and not several: a caller
    who asks for many choices must not outvote the others (one cluster; Kish, Survey Sampling, 1965).
    """
    judged = [s for s in scores if s.outcome is not Outcome.UNJUDGED]
    low = sum(s.is_low for s in judged)
    suspect = sum(s.outcome is Outcome.SUSPECT for s in judged)
    each = weight / len(judged) if judged else 0.0
    return Tally(
        rows=1,
        judged=int(bool(judged)),
        low=int(low > 0),
        suspect=int(suspect > 0 and not low),
        weight=weight if judged else 0.0,
        weight_squares=weight * weight if judged else 0.0,
        low_weight=each * low,
        suspect_weight=each * suspect,
        crashed=int(any(s.has_crashed for s in scores)),
        requests_flagged=int(any(s.request in _FLAGGED for s in scores)),
    )


_FLAGGED = {Outcome.FAILED, Outcome.SUSPECT}


_ReasonKey = tuple[str, str, int, Outcome]


def _worth_counting(score: Score) -> Iterable[_ReasonKey]:
    for said in score.judgement.gates:
        verdict = said.verdict
        if verdict.outcome in _FLAGGED or verdict.reason == CRASHED:
            yield verdict.reason, said.gate, int(said.level), verdict.outcome


class Tallies:
    """Adds rows up; memory depends on the number of groups and reasons, not of rows."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Kind, str], Tally] = {}
        self._per_kind: dict[Kind, int] = {}
        self._reasons: dict[_ReasonKey, tuple[int, float]] = {}

    def add(self, scores: Sequence[Score], weight: float, names: Mapping[Kind, str]) -> None:
        """Count one request's choices in the whole and in every group that ``names`` puts them in."""
        tally = tally_of(scores, weight)
        self._count(Kind.SERVICE, "", tally)
        for kind, name in names.items():
            self._count(kind, name or UNKNOWN, tally)
        told = Counter(key for score in scores for key in set(_worth_counting(score)))
        for key, choices in told.items():
            self._reason(key, 1, weight * choices / len(scores))

    def include(self, groups: Iterable[Group], reasons: Iterable[ReasonCount]) -> None:
        """Add what another partition has counted."""
        for group in groups:
            self._count(group.kind, group.name, group.tally)
        for r in reasons:
            self._reason((r.code, r.gate, r.level, r.outcome), r.rows, r.weight)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return all groups, the whole first, then by kind and size."""
        order = list(Kind)
        found = [Group(kind, name, tally) for (kind, name), tally in self._groups.items()]
        found.sort(key=lambda g: (order.index(g.kind), -g.tally.weight, g.name))
        return tuple(found)

    @property
    def reasons(self) -> tuple[ReasonCount, ...]:
        """Return all reasons, the most frequent first."""
        found = [
            ReasonCount(*key, rows=rows, weight=weight)
            for key, (rows, weight) in self._reasons.items()
        ]
        found.sort(key=lambda r: (r.outcome is not Outcome.FAILED, -r.weight, r.code, r.gate))
        return tuple(found)

    def _count(self, kind: Kind, name: str, tally: Tally) -> None:
        key = (kind, name)
        if key not in self._groups and self._per_kind.get(kind, 0) >= MOST_GROUPS:
            key = (kind, REST)
        if key not in self._groups:
            self._per_kind[kind] = self._per_kind.get(kind, 0) + 1
            self._groups[key] = Tally()
        self._groups[key] += tally

    def _reason(self, key: _ReasonKey, rows: int, weight: float) -> None:
        known_rows, known_weight = self._reasons.get(key, (0, 0.0))
        self._reasons[key] = (known_rows + rows, known_weight + weight)
