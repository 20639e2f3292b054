"""Recordings in, numbers out: every method on every fault, with thresholds from the calibrating half alone. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.faults.fault import Expected
from bench.matrix.halves import Halves, split
from bench.matrix.measures import (
    BUDGET,
    Threshold,
    auc,
    cleaned,
    delay,
    hits,
    partial_auc,
    rounded,
    threshold,
    tokens_to,
)
from bench.matrix.methods.method import Method
from bench.matrix.methods.product import METHOD as PRODUCT
from bench.matrix.mixture import SHARES, mixtures
from bench.matrix.procedure import RUNS, procedure
from bench.matrix.recording import Check, Track, cases_of
from bench.measures import auroc, share
from quality_lib.errors import BadInput

BUDGET_CASES = (1, 2, 4, 8, 16)
"""Prompts that are asked, for power against tokens."""
MIXED_ROWS = frozenset({1, 6, 12})
MIXED_CHECKS = 100
TINY_CHANGE = 18
Say = Callable[[str], None]


@dataclass(frozen=True)
class Trained:
    """A method that has learned, with its threshold and what it says of healthy checks."""

    method: Method
    score: Callable[[Check], float | None]
    limit: Threshold
    healthy: tuple[float, ...]
    """Scores of the healthy checks of the evaluating half."""
    healthy_missing: int
    tokens: float
    """Median of a check."""

    def scores(self, checks: Sequence[Check]) -> tuple[list[float], int]:
        """Return the scores of some checks, and how many have none."""
        return cleaned([self.score(check) for check in checks])


@dataclass
class Scored:
    """Everything that is told of one track."""

    track: Track
    halves: Mapping[str, Any]
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    procedure: dict[str, Any] = field(default_factory=dict)
    """The product's own, over hours."""


def score_tracks(
    checks: Sequence[Check],
    methods: Sequence[Method],
    say: Say = lambda _: None,
    runs: int = RUNS,
) -> list[Scored]:
    """Score every method on both recorded tracks and on the composed one.

    ``runs``: simulated endpoints of the product's procedure for each fault.
    """
    reference = reference_of(checks)
    found = []
    for track in (Track.DETERMINISTIC, Track.NOISY):
        halves = split(checks, track)
        trained = []
        for method in methods:
            say(f"{track}: {method.name}")
            trained.append(train(method, halves, reference))
        found.append(_track(track, halves, trained))
        say(f"{track}: the product's procedure")
        found[-1].procedure = procedure(halves, reference, runs)
        if track is Track.NOISY:
            found.append(_mixture(halves, trained))
    return found


def reference_of(checks: Sequence[Check]) -> Check:
    """Return the check that all are held against: the first healthy deterministic one of the calibrating half."""
    halves = split(checks, Track.DETERMINISTIC)
    return min(halves.calibration, key=lambda check: (check.head.start, check.head.at))


def train(method: Method, halves: Halves, reference: Check) -> Trained:
    """Let a method learn from every other calibrating check and set its threshold on the rest.

    Raises:
        BadInput: fewer than two checks to learn from.
    """
    known = [c for c in halves.calibration if c.head.check_id != reference.head.check_id]
    if len(known) < 2:
        raise BadInput(f"{len(known) + 1} calibrating checks are too few", fix="record more")
    learned, limiting = known[::2], known[1::2]
    score = method.learn([reference, *learned])
    limit = threshold(cleaned([score(check) for check in limiting])[0])
    healthy, missing = cleaned([score(check) for check in halves.healthy])
    tokens = statistics.median([method.tokens(check) for check in known])
    return Trained(method, score, limit, tuple(healthy), missing, tokens)


def _track(track: Track, halves: Halves, trained: Sequence[Trained]) -> Scored:
    silent = [c for c in halves.faulty if c.head.expected is Expected.SILENT]
    harmed = [c for c in halves.faulty if c.head.expected is not Expected.SILENT]
    told = Scored(track, _halves_told(halves))
    for one in trained:
        by_kind = _grouped(harmed, lambda c: (c.head.number, c.head.kind))
        areas = {
            (number, kind): auc(one.scores(group)[0], one.healthy)
            for (number, kind), group in by_kind.items()
        }
        tiny = [a for (number, _), a in areas.items() if number == TINY_CHANGE and a is not None]
        told.methods[one.method.name] = {
            "tokens_per_check": one.tokens,
            "threshold": rounded(one.limit.value, 6),
            "threshold_is_extrapolated": one.limit.is_extrapolated,
            "threshold_from_healthy_checks": one.limit.healthy,
            "false_alarms": share(hits(one.healthy, one.limit.value), len(one.healthy)),
            "healthy_without_score": one.healthy_missing,
            "controls": _controls(one, silent),
            "own_rule": _own_rule(one, harmed),
            "gross": _found(one, [c for c in harmed if c.head.is_gross]),
            "tiny_change_macro_auc": rounded(statistics.fmean(tiny)) if tiny else None,
            "kinds": [
                {"number": number, "kind": kind, **_measured(one, group)}
                for (number, kind), group in sorted(by_kind.items())
            ],
            "faults": [
                {"fault": name, "checks": len(group), **_found(one, group)}
                for name, group in sorted(_grouped(harmed, lambda c: c.head.fault).items())
            ],
            "by_tokens": _by_tokens(one, halves, harmed),
        }
    return told


def _halves_told(halves: Halves) -> dict[str, Any]:
    def starts(checks: Sequence[Check]) -> list[int]:
        return sorted({check.head.start for check in checks})

    return {
        "calibration": {"checks": len(halves.calibration), "starts": starts(halves.calibration)},
        "healthy": {"checks": len(halves.healthy), "starts": starts(halves.healthy)},
        "faulty": {"checks": len(halves.faulty), "starts": starts(halves.faulty)},
    }


def _grouped(checks: Sequence[Check], key: Callable[[Check], Any]) -> dict[Any, list[Check]]:
    groups: dict[Any, list[Check]] = defaultdict(list)
    for check in checks:
        groups[key(check)].append(check)
    return dict(groups)


def _found(one: Trained, checks: Sequence[Check]) -> dict[str, Any]:
    """Count the checks above the threshold; one without a score was not found."""
    scores, _ = one.scores(checks)
    return share(hits(scores, one.limit.value), len(checks))


def _measured(one: Trained, checks: Sequence[Check]) -> dict[str, Any]:
    scores, missing = one.scores(checks)
    found = hits(scores, one.limit.value)
    return {
        "instances": len({check.head.fault for check in checks}),
        "checks": len(checks),
        "without_score": missing,
        "found": share(found, len(checks)),
        **auroc(scores, one.healthy),
        "partial_auc": rounded(partial_auc(scores, one.healthy)),
        "median_score": rounded(statistics.median(scores), 6) if scores else None,
        "delay_checks": delay(found, len(checks)),
    }


def _controls(one: Trained, silent: Sequence[Check]) -> list[dict[str, Any]]:
    return [
        {"control": name, "alarms": _found(one, group)}
        for name, group in sorted(_grouped(silent, lambda c: c.head.fault).items())
    ]


def _own_rule(one: Trained, harmed: Sequence[Check]) -> dict[str, Any] | None:
    """Count what the authors' own alarm level finds, and how often it alarms in health."""
    level = one.method.own_rule
    if level is None:
        return None
    gross = [check for check in harmed if check.head.is_gross]
    return {
        "level": round(level, 4),
        "gross": share(hits(one.scores(gross)[0], level), len(gross)),
        "all": share(hits(one.scores(harmed)[0], level), len(harmed)),
        "false_alarms": share(hits(one.healthy, level), len(one.healthy)),
    }


def _by_tokens(one: Trained, halves: Halves, harmed: Sequence[Check]) -> list[dict[str, Any]]:
    """Repeat the area of every kind with fewer prompts: what does a token buy?"""
    cases = cases_of(halves.healthy[:1])
    rows: list[dict[str, Any]] = []
    areas: dict[int, dict[str, float | None]] = {}
    for count in BUDGET_CASES:
        kept = _some(halves.healthy[:1], one, count)
        if not kept or count > len(cases):
            break
        healthy, _ = one.scores([check.limited(kept) for check in halves.healthy])
        by_kind = {
            f"{number} {kind}": auc(one.scores([c.limited(kept) for c in group])[0], healthy)
            for (number, kind), group in _grouped(
                harmed, lambda c: (c.head.number, c.head.kind)
            ).items()
        }
        tokens = int(
            statistics.median([one.method.tokens(c.limited(kept)) for c in halves.healthy])
        )
        if tokens in areas:
            break
        areas[tokens] = by_kind
        known = [area for area in by_kind.values() if area is not None]
        rows.append({
            "tokens": tokens,
            "prompts": len(kept),
            "mean_auc": rounded(statistics.fmean(known)) if known else None,
            "kinds": {kind: rounded(area) for kind, area in sorted(by_kind.items())},
        })
    for kind in sorted({kind for by_kind in areas.values() for kind in by_kind}):
        reached = tokens_to({tokens: by_kind.get(kind) for tokens, by_kind in areas.items()})
        rows[-1].setdefault("tokens_to_auc_0.999", {})[kind] = reached
    return rows


def _some(checks: Sequence[Check], one: Trained, count: int) -> list[str]:
    """Return the first prompts of the channels that the method asks."""
    own = [
        row.case_id for check in checks for row in check.rows if row.channel in one.method.channels
    ]
    return list(dict.fromkeys(own))[:count]


def _mixture(halves: Halves, trained: Sequence[Trained]) -> Scored:
    """Compose row 20 from the noisy recordings."""
    told = Scored(Track.MIXTURE, _halves_told(halves))
    sources = [c for c in halves.faulty if c.head.number in MIXED_ROWS]
    by_kind = _grouped(sources, lambda c: (c.head.number, c.head.kind))
    composed = {
        (number, kind, part): mixtures(halves.healthy, group, part, MIXED_CHECKS, number)
        for (number, kind), group in by_kind.items()
        for part in SHARES
    }
    for one in trained:
        told.methods[one.method.name] = {
            "tokens_per_check": one.tokens,
            "kinds": [
                {"number": 20, "kind": f"{kind} in {part:.1%}", "share": part, "of": kind,
                 **_measured(one, checks)}
                for (_, kind, part), checks in composed.items()
            ],
        }  # fmt: skip
    return told


def result_of(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return everything as plain values."""
    return {
        "budget_false_alarms_per_check": BUDGET,
        "tracks": {
            str(one.track): {
                "halves": one.halves,
                "methods": one.methods,
                **({"procedure": one.procedure} if one.procedure else {}),
            }
            for one in scored
        },
    }


def falls_short(result: Mapping[str, Any]) -> list[str]:
    """Return what the product must never miss, in sentences; a recording too small to tell is told too."""
    track = result["tracks"][str(Track.DETERMINISTIC)]["methods"][PRODUCT.name]
    gross, false = track["gross"], track["false_alarms"]
    told = []
    if not gross["of"] or not false["of"]:
        told.append("no gross fault or no healthy check was recorded on the deterministic track")
    if gross["hits"] < gross["of"]:
        told.append(f"the product found {gross['hits']} of {gross['of']} gross faults in one check")
    if false["hits"]:
        told.append(f"the product alarmed in {false['hits']} of {false['of']} healthy checks")
    return told
