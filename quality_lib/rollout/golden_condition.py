"""Condition A: so many golden runs of what serves, in a row, were bad. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from quality_lib.golden.result import TrendPoint
from quality_lib.records import Summary, Tri
from quality_lib.rollout.condition import Condition, Note, reading
from quality_lib.rollout.evidence import Evidence, Place, moment, place, span
from quality_lib.rollout.limits import TriggerLimits
from quality_lib.rollout.policy import all_of

NAME = "A"


def judge_golden(evidence: Evidence, limits: TriggerLimits) -> Condition:
    """Judge the newest runs of the serving deployment.

    A run without a verdict of its own (inconclusive) neither breaks a row nor makes one. What is
    missing to a full row is unknown: after one bad run the next may be good or bad.
    """
    runs = _newest_first(evidence.golden)
    places = {run.run_id: _place(run, evidence, limits) for run in runs}
    row, notes = _row(runs, places, limits)
    in_row = {run.run_id for run in row}
    inputs = tuple(
        _input(run, places[run.run_id], run.run_id in in_row, limits, evidence) for run in runs
    )
    if row and row[0].changed is Tri.YES and _says(row[0], limits) is not Tri.YES:
        notes += (Note("changed_only", _CHANGED),)
    found = [_says(run, limits) for run in row]
    state = all_of(found + [Tri.UNKNOWN] * (limits.golden_runs - len(found)))
    return Condition(NAME, state, _sentence(state, found, limits, notes), inputs, notes)


_CHANGED = (
    "the newest golden run found the model changed; that alone never counts for condition A, only "
    "low similarity or a failed run does"
)


def _newest_first(points: tuple[TrendPoint, ...]) -> list[TrendPoint]:
    """Return each run once, whatever order they came in; a time that cannot be read sorts last."""
    unique = {point.run_id: point for point in points}.values()
    return sorted(unique, key=lambda p: (_seconds(p), p.run_id), reverse=True)


def _seconds(point: TrendPoint) -> float:
    at = moment(point.started_at)
    return at.timestamp() if at else float("-inf")


def _place(run: TrendPoint, evidence: Evidence, limits: TriggerLimits) -> Place:
    placed = place(run.started_at, evidence, skew_s=limits.clock_skew_s)
    if placed.code == "clock":
        return placed
    if evidence.deployment_key is None:
        return Place(placed.age_s, "nobody can tell what serves now", "deployment_unknown")
    if run.deployment_key != evidence.deployment_key:
        other = run.deployment_key[:8] or "unknown"
        return Place(placed.age_s, f"is of another deployment ({other})", "other_deployment")
    return placed


def _row(
    runs: list[TrendPoint], places: Mapping[str, Place], limits: TriggerLimits
) -> tuple[list[TrendPoint], tuple[Note, ...]]:
    """Return the newest judged runs that follow each other, at most as many as are asked for."""
    own = [run for run in runs if not places[run.run_id].problem]
    judged = [run for run in own if _says(run, limits) is not Tri.UNKNOWN]
    if not judged:
        return [], (_nothing(own, places),)
    allowed = timedelta(minutes=limits.golden_max_age_minutes)
    age = timedelta(seconds=places[judged[0].run_id].age_s or 0.0)
    if age > allowed:
        return [], (
            Note(
                "stale",
                f"the newest golden run of this deployment with a verdict is {span(age)} old, "
                f"allowed are {span(allowed)}",
            ),
        )
    row = judged[:1]
    for run in judged[1 : limits.golden_runs]:
        gap = _seconds(row[-1]) - _seconds(run)
        if gap > limits.golden_max_gap_minutes * 60:
            told = f"no golden run with a verdict for {span(timedelta(seconds=gap))}: no row"
            return row, (Note("gap", told),)
        row.append(run)
    return row, ()


def _nothing(own: list[TrendPoint], places: Mapping[str, Place]) -> Note:
    if own:
        return Note("inconclusive", "no golden run of what serves now has reached a verdict")
    if not places:
        return Note("no_golden", "there is no golden run of this service")
    codes = {placed.code for placed in places.values()}
    if codes == {"clock"}:
        return Note("clock", "the golden runs lie in the future: the clocks disagree")
    return Note("no_golden", "there is no golden run yet of what serves now")


def _says(run: TrendPoint, limits: TriggerLimits) -> Tri:
    """Return whether one run is bad."""
    if run.summary is Summary.INCONCLUSIVE:
        return Tri.UNKNOWN
    if run.summary is Summary.FAILED:
        return Tri.YES
    if run.mean_similarity is None:
        return Tri.NO
    if math.isnan(run.mean_similarity):
        return Tri.UNKNOWN
    return Tri.YES if run.mean_similarity < limits.similarity_below else Tri.NO


def _input(
    run: TrendPoint, placed: Place, is_in_row: bool, limits: TriggerLimits, evidence: Evidence
) -> dict[str, Any]:
    why_not = ""
    if not is_in_row:
        unjudged = _says(run, limits) is Tri.UNKNOWN
        why_not = "has no verdict" if unjudged else "is not among the newest in a row"
        allowed = limits.golden_max_age_minutes * 60
        if placed.age_s is not None and placed.age_s > allowed:
            why_not = f"is {span(timedelta(seconds=placed.age_s))} old"
    similarity = run.mean_similarity
    shown = "no similarity" if similarity is None else f"similarity {similarity:.3f}"
    return reading(
        "golden run",
        run.run_id,
        run.started_at,
        placed,
        value=f"{shown}, {run.summary.value}",
        limit=f"below {limits.similarity_below:g} or failed",
        state=_says(run, limits),
        why_not=why_not,
        mean_similarity=similarity,
        summary=run.summary.value,
        changed=run.changed.value,
        deployment_key=run.deployment_key,
        serving_deployment_key=evidence.deployment_key,
    )


def _sentence(state: Tri, found: list[Tri], limits: TriggerLimits, notes: tuple[Note, ...]) -> str:
    asked = limits.golden_runs
    bad = f"below {limits.similarity_below:g} or failed"
    runs = "run" if asked == 1 else "runs"
    if state is Tri.YES:
        return f"the last {asked} golden {runs} in a row {'was' if asked == 1 else 'were'} {bad}"
    if state is Tri.NO:
        good = found.count(Tri.NO)
        return (
            f"{good} of the last {len(found)} golden {runs} {'was' if good == 1 else 'were'} good"
        )
    if found:
        told = f"{len(found)} of {asked} golden {runs} in a row so far {'is' if len(found) == 1 else 'are'} {bad}"
        return "; ".join([told, *(n.sentence for n in notes if n.code == "gap")])
    return notes[0].sentence
