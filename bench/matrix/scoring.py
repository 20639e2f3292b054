"""Recordings in, numbers out: every method on every fault, with thresholds from the calibrating half alone. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
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
from bench.matrix.recording import Check, Track, by_kind, cases_of
from bench.measures import auroc, share
from quality_lib.errors import BadInput

BUDGET_CASES = (1, 2, 4, 6, 8, 12, 16, 25)
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
        found.append(_track(track, halves, trained, reference))
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


def _track(track: Track, halves: Halves, trained: Sequence[Trained], reference: Check) -> Scored:
    silent = [c for c in halves.faulty if c.head.expected is Expected.SILENT]
    harmed = [c for c in halves.faulty if c.head.expected is not Expected.SILENT]
    told = Scored(track, _halves_told(halves))
    for one in trained:
        kinds = by_kind(harmed)
        areas = {
            (number, kind): auc(one.scores(group)[0], one.healthy)
            for (number, kind), group in kinds.items()
        }
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
            "tiny_change_macro_auc": _tiny(areas),
            "kinds": [
                {
                    "number": number,
                    "kind": kind,
                    "is_gross": any(check.head.is_gross for check in group),
                    **_measured(one, group),
                }
                for (number, kind), group in sorted(kinds.items())
            ],
            "faults": [
                {"fault": name, "checks": len(group), **_found(one, group)}
                for name, group in sorted(_grouped(harmed, lambda c: c.head.fault).items())
            ],
            "by_tokens": _by_tokens(one, halves, harmed, reference),
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


def _by_tokens(
    one: Trained, halves: Halves, harmed: Sequence[Check], reference: Check
) -> list[dict[str, Any]]:
    """Let the method learn and judge with fewer prompts: what does a token buy?"""
    cases, kinds = cases_of(halves.healthy[:1]), by_kind(harmed)
    rows: list[dict[str, Any]] = []
    areas: dict[int, dict[str, float | None]] = {}
    for count in BUDGET_CASES:
        kept = first_prompts(halves.healthy[:1], one.method, count)
        if not kept or count > len(cases):
            break
        few = train(one.method, _limited(halves, kept), reference.limited(kept))
        tokens = int(few.tokens)
        if tokens in areas:
            break
        found = {
            key: auc(few.scores([c.limited(kept) for c in group])[0], few.healthy)
            for key, group in kinds.items()
        }
        areas[tokens] = {f"{number} {kind}": area for (number, kind), area in found.items()}
        known = [area for area in found.values() if area is not None]
        gross = [c.limited(kept) for c in harmed if c.head.is_gross]
        rows.append({
            "tokens": tokens,
            "prompts": len(kept),
            "mean_auc": rounded(statistics.fmean(known)) if known else None,
            "tiny_change_macro_auc": _tiny(found),
            "gross": _found(few, gross),
            "false_alarms": share(hits(few.healthy, few.limit.value), len(few.healthy)),
            "kinds": {kind: rounded(area) for kind, area in sorted(areas[tokens].items())},
        })
    for kind in sorted({kind for found in areas.values() for kind in found}):
        reached = tokens_to({tokens: found.get(kind) for tokens, found in areas.items()})
        rows[-1].setdefault("tokens_to_auc_0.999", {})[kind] = reached
    return rows


def _limited(halves: Halves, cases: Collection[str]) -> Halves:
    return dataclasses.replace(
        halves,
        calibration=tuple(check.limited(cases) for check in halves.calibration),
        healthy=tuple(check.limited(cases) for check in halves.healthy),
        faulty=tuple(check.limited(cases) for check in halves.faulty),
    )


def _tiny(areas: Mapping[tuple[int, str], float | None]) -> Any:
    """Return the mean area over the kinds of TinyChange."""
    tiny = [a for (number, _), a in areas.items() if number == TINY_CHANGE and a is not None]
    return rounded(statistics.fmean(tiny)) if tiny else None


def first_prompts(checks: Sequence[Check], method: Method, count: int) -> list[str]:
    """Return the first prompts of the channels that the method asks, from each in turn; the long one is the last."""
    by_channel: dict[str, list[str]] = {channel: [] for channel in method.channels}
    for check in checks:
        for row in check.rows:
            if row.channel in by_channel and row.case_id not in by_channel[row.channel]:
                by_channel[row.channel].append(row.case_id)
    longs = by_channel.pop("long_context", [])
    in_turn = [
        case for turn in zip_longest(*by_channel.values()) for case in turn if case is not None
    ]
    short = [case for case in dict.fromkeys(in_turn) if case not in longs]
    return [*short, *longs][:count]


def _mixture(halves: Halves, trained: Sequence[Trained]) -> Scored:
    """Compose row 20 from the noisy recordings."""
    told = Scored(Track.MIXTURE, _halves_told(halves))
    sources = [c for c in halves.faulty if c.head.number in MIXED_ROWS]
    kinds = by_kind(sources)
    composed = {
        (number, kind, part): mixtures(halves.healthy, group, part, MIXED_CHECKS, number)
        for (number, kind), group in kinds.items()
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
    """Return what the product must never miss, in sentences; a recording too small to tell is told too.

    Every kind of gross fault of the deterministic track must be found in each check, or, where few healthy checks make a
    high threshold, lie above all of health; and the whole procedure must page nobody in health. That a single healthy check
    lies above a threshold from a handful of others is no alarm.
    """
    track = result["tracks"][str(Track.DETERMINISTIC)]
    gross = [kind for kind in track["methods"][PRODUCT.name]["kinds"] if kind["is_gross"]]
    told = []
    if not gross:
        told.append("no gross fault was recorded on the deterministic track")
    told += [
        f"the product found {kind['kind']} in {kind['found']['hits']} of {kind['found']['of']} checks"
        for kind in gross
        if kind["found"]["hits"] < kind["found"]["of"] and kind["auroc"] != 1.0
    ]
    if "refused" in track["procedure"]:
        return [*told, f"the product's procedure was not run: {track['procedure']['refused']}"]
    pages = track["procedure"]["healthy"]["pages"]
    if not pages["of"]:
        told.append("no healthy check was recorded on the deterministic track")
    if pages["hits"]:
        told.append(f"the product paged in {pages['hits']} of {pages['of']} healthy checks")
    return told
