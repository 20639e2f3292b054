"""Which exchanges of a window are scored: a deterministic, stratified sample with known weights. Pure.

Of every kind the requests with the lowest hashes are kept, as many as its share of the sample allows.
A hash knows nothing of the text, so these are a random sample of their kind; a rerun, or the same
objects in another order, gives the same one. Each kept request stands for ``met / kept`` of its kind,
times the objects that its own object stands for. The choices of a request (``n``) answer one prompt with
one model at one time: they come and go together, and share the weight of their request.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from quality_lib.exchanges.key_hash import position
from quality_lib.exchanges.row import BadLine, Dropped, DropReason, Row, Scored
from quality_lib.exchanges.strata import Stratum, stratum_of

MOST_EXAMPLES = 5
MOST_STRATA = 500
"""Kinds told apart. The model's name is the caller's free text; what comes later is one kind."""
_ROOM = 4
"""Exchanges held at most, as a multiple of those wanted, before the sample is thinned."""
_OTHERS = "others"
MOST_CHOICES = 4
"""Choices of a request that are kept: more of them say little more, and ``n`` is the caller's."""
_REMEMBERED = 4096
"""Requests of late whose further choices are recognised though they were not kept; servers and gateways
write the choices of a request close together."""
Request = tuple[str, str]
"""Id and start. Clients may send one id with many requests, such as that of a trace."""

K = TypeVar("K")


@dataclass(frozen=True)
class Sampled:
    """An exchange of the sample."""

    row: Scored
    stratum: str
    """As ``model=chat tools=no structured=no stream=yes length=short``."""
    weight: float
    """How many requests of the window it stands for: 1 / its chance of being taken, by the choices kept
    of its request."""

    @property
    def request(self) -> Request:
        """Return what the choices of one request share."""
        return request_of(self.row)


@dataclass(frozen=True)
class Counts:
    """What was met while reading; counts of several partitions add up (``+``)."""

    objects: int = 0
    """Objects read."""
    entries: int = 0
    """Log entries met: those scored, dropped and bad. A request with several choices counts each."""
    scored: int = 0
    """Exchanges that may be scored; the sample is taken of these."""
    sampled: int = 0
    bad_lines: int = 0
    gone: int = 0
    """Objects that were deleted before all of them was read; also a bad line each."""
    skipped_s: float = 0.0
    """Seconds of the log before this window that no window has covered."""
    dropped: Mapping[DropReason, int] = field(default_factory=dict)
    strata: Mapping[str, int] = field(default_factory=dict)
    """Requests with exchanges that may be scored, by kind."""
    bad_examples: tuple[BadLine, ...] = ()
    """The first few."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            objects=self.objects + other.objects,
            entries=self.entries + other.entries,
            scored=self.scored + other.scored,
            sampled=self.sampled + other.sampled,
            bad_lines=self.bad_lines + other.bad_lines,
            gone=self.gone + other.gone,
            skipped_s=self.skipped_s + other.skipped_s,
            dropped=_sum(self.dropped, other.dropped),
            strata=_sum(self.strata, other.strata),
            bad_examples=(self.bad_examples + other.bad_examples)[:MOST_EXAMPLES],
        )


@dataclass(frozen=True)
class SampleResult:
    """The sample of one partition."""

    rows: tuple[Sampled, ...]
    """In order of the objects' keys and lines; the choices of a request follow each other."""
    counts: Counts
    seen: tuple[str, ...] = ()
    """What the next watermark wants to know of the objects read; for ``watermark.advanced``."""


def _sum(one: Mapping[K, int], other: Mapping[K, int]) -> dict[K, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


def request_of(row: Scored) -> Request:
    """Return what the choices of one request share."""
    return row.request_id, row.exchange.started_at


@dataclass
class _Choices:
    """The choices kept of one request."""

    weight: float
    names: set[str] = field(default_factory=set)
    """Ids of all that were met."""
    rows: list[Scored] = field(default_factory=list)


@dataclass
class _Kept:
    """The requests kept of one kind: a heap with the highest hash on top."""

    limit: int
    met: int = 0
    heap: list[tuple[float, int, Request]] = field(default_factory=list)


class Sampler:
    """Takes rows one by one and keeps a bounded sample of them."""

    def __init__(self, seed: str, max_rows: int, min_per_stratum: int) -> None:
        self._seed = seed
        self._max_rows = max(1, max_rows)
        self._min = max(0, min_per_stratum)
        self._kinds: dict[str, _Kept] = {}
        self._held: dict[Request, _Choices] = {}
        self._met: dict[Request, None] = {}
        self._scored = 0
        self._names: dict[Stratum, str] = {}
        self._number = count()
        self._dropped: dict[DropReason, int] = {}
        self._bad = 0
        self._examples: list[BadLine] = []
        self.objects = 0
        """Objects read so far; the reader counts them."""
        self.gone = 0
        """Those of them that were deleted meanwhile."""

    def add(self, row: Row, weight: float = 1.0) -> None:
        """Take one row; ``weight`` is how many objects of the window its object stands for."""
        if isinstance(row, Scored):
            self._consider(row, weight)
        elif isinstance(row, Dropped):
            self._drop(row.reason)
        else:
            self._bad += 1
            if len(self._examples) < MOST_EXAMPLES:
                self._examples.append(row)

    def _drop(self, reason: DropReason) -> None:
        self._dropped[reason] = self._dropped.get(reason, 0) + 1

    def _consider(self, row: Scored, weight: float) -> None:
        request = request_of(row)
        choices = self._held.get(request)
        if choices is not None and row.exchange.id in choices.names:
            self._drop(DropReason.DUPLICATE)
            return
        self._scored += 1
        if choices is None and self._is_new(request):
            choices = self._taken(request, row, weight)
        if choices is not None:
            self._keep(choices, row)
        if len(self._held) > _ROOM * self._max_rows + (self._min + 1) * len(self._kinds):
            self._thin(2 * self._max_rows)

    def _is_new(self, request: Request) -> bool:
        if request in self._met:
            return False
        self._met[request] = None
        if len(self._met) > _REMEMBERED:
            del self._met[next(iter(self._met))]
        return True

    def _taken(self, request: Request, row: Scored, weight: float) -> _Choices | None:
        """Take a request into the sample by its first choice; None when its hash is too high."""
        kind = self._kind(row)
        kind.met += 1
        place = -position(self._seed, "\0".join(request))
        if len(kind.heap) >= kind.limit and place <= kind.heap[0][0]:
            return None
        choices = self._held[request] = _Choices(weight)
        heapq.heappush(kind.heap, (place, -next(self._number), request))
        if len(kind.heap) > kind.limit:
            self._remove_one(kind)
        return choices

    def _keep(self, choices: _Choices, row: Scored) -> None:
        choices.names.add(row.exchange.id)
        choices.rows.append(row)
        if len(choices.rows) > MOST_CHOICES:
            choices.rows.sort(key=lambda r: position(self._seed, r.exchange.id))
            choices.rows.pop()

    def _kind(self, row: Scored) -> _Kept:
        stratum = stratum_of(row)
        name = self._names.get(stratum)
        if name is None:
            name = str(stratum) if len(self._names) < MOST_STRATA else _OTHERS
            if name is not _OTHERS:
                self._names[stratum] = name
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kept(limit=max(self._max_rows, self._min))
        return kind

    def _remove_one(self, kind: _Kept) -> None:
        self._held.pop(heapq.heappop(kind.heap)[2], None)

    def _thin(self, rows: int) -> None:
        """Lower the limits of the kinds to their shares of ``rows``; a limit never grows again.

        That keeps the sample fair: at every moment the lowest hashes of all that were met are held.
        """
        shares = allocated({n: k.met for n, k in self._kinds.items()}, rows, self._min)
        for name, kind in self._kinds.items():
            kind.limit = max(1, min(kind.limit, shares[name]))
            while len(kind.heap) > kind.limit:
                self._remove_one(kind)

    def result(self, seen: tuple[str, ...] = ()) -> SampleResult:
        """Return the sample of all rows taken so far; nothing can be added afterwards."""
        self._thin(self._max_rows)
        found: list[list[Sampled]] = []
        for name, kind in self._kinds.items():
            for _, _, request in kind.heap:
                choices = self._held[request]
                weight = choices.weight * kind.met / len(kind.heap) / len(choices.rows)
                found.append(sorted((Sampled(r, name, weight) for r in choices.rows), key=_place))
        found.sort(key=lambda choices: _place(choices[0]))
        rows = tuple(row for choices in found for row in choices)
        met = {name: kind.met for name, kind in sorted(self._kinds.items())}
        counts = Counts(
            objects=self.objects,
            entries=self._scored + self._bad + sum(self._dropped.values()),
            scored=self._scored,
            sampled=len(rows),
            bad_lines=self._bad,
            gone=self.gone,
            dropped=dict(sorted(self._dropped.items())),
            strata=met,
            bad_examples=tuple(self._examples),
        )
        return SampleResult(rows, counts, seen)


def _place(sampled: Sampled) -> tuple[str, int, str]:
    row = sampled.row
    return row.key, row.line, row.exchange.id


def allocated(met: Mapping[str, int], rows: int, least: int) -> dict[str, int]:
    """Divide ``rows`` among kinds by how many were met, but give each ``least`` where it has them.

    The minimums come on top of what the others get, so a rare kind costs a frequent one nothing.
    """
    whole = sum(met.values())
    return {
        name: min(number, max(least, 1, rows * number // whole)) for name, number in met.items()
    }
