"""Condition B: too many low-quality answers in the last window of production traffic. Pure."""

from __future__ import annotations

from typing import Any

from quality_lib.drift.rate import Rate, exceeds, hits_to_exceed
from quality_lib.records import Summary, Tri
from quality_lib.rollout.condition import Condition, Note, reading
from quality_lib.rollout.evidence import Evidence, Place, moment, place
from quality_lib.rollout.limits import TriggerLimits
from quality_lib.scoring.result import Depth, ScorePoint

NAME = "B"
_MOST_COUNTED = 10_000


def judge_log(evidence: Evidence, limits: TriggerLimits) -> Condition:
    """Judge the newest windows of the quick pass that are young enough.

    A bad window stands until a newer one contradicts it. A good window before one without a verdict
    does not show that things are good *now*: then nothing is known.
    """
    windows = _newest_first(evidence.scores)
    places = [_place(window, evidence, limits) for window in windows]
    found = [_says(window, limits) for window in windows]
    counted = [i for i, placed in enumerate(places) if not placed.problem]
    decides = next((i for i in counted if found[i][0] is not Tri.UNKNOWN), None)
    state = Tri.UNKNOWN if decides is None else found[decides][0]
    if decides is not None and state is Tri.NO and decides != counted[0]:
        state, decides = Tri.UNKNOWN, None
    inputs = tuple(
        _input(window, placed, says, limits, _passed_over(i, decides, counted, says[0]))
        for i, (window, placed, says) in enumerate(zip(windows, places, found, strict=True))
    )
    if decides is not None:
        return Condition(NAME, state, found[decides][1], inputs)
    if counted:
        return Condition(
            NAME, state, found[counted[0]][1], inputs, (Note("inconclusive", found[counted[0]][1]),)
        )
    note = _nothing(places)
    return Condition(NAME, Tri.UNKNOWN, note.sentence, inputs, (note,))


def _passed_over(index: int, decides: int | None, counted: list[int], says: Tri) -> str:
    """Return why a window that is young enough does not decide; empty when nothing passes it over."""
    if decides is not None and index > decides:
        return "a newer window decides"
    if decides is None and counted and index > counted[0] and says is Tri.NO:
        return "is followed by one that tells nothing"
    return ""


def _newest_first(points: tuple[ScorePoint, ...]) -> list[ScorePoint]:
    """Return each window once, by its end; a time that cannot be read sorts last."""
    unique = {point.score_id: point for point in points}.values()

    def order(point: ScorePoint) -> tuple[float, str]:
        at = moment(point.end)
        return (at.timestamp() if at else float("-inf"), point.score_id)

    return sorted(unique, key=order, reverse=True)


def _place(window: ScorePoint, evidence: Evidence, limits: TriggerLimits) -> Place:
    placed = place(
        window.end,
        evidence,
        skew_s=limits.clock_skew_s,
        max_age_minutes=limits.window_max_age_minutes,
        begins=window.start,
    )
    if not placed.problem and window.depth is not Depth.QUICK:
        return Place(placed.age_s, "is of the deep pass, which covers an hour", "other_depth")
    return placed


def _says(window: ScorePoint, limits: TriggerLimits) -> tuple[Tri, str]:
    """Return whether one window is bad, and the sentence."""
    limit, share = limits.low_quality_rate, window.share
    if window.rows < limits.min_rows or share is None or not 0 <= share <= 1:
        told = f"{window.rows} judged answers in the scored window, asked are {limits.min_rows}"
        return Tri.UNKNOWN, told
    if window.summary is Summary.INCONCLUSIVE:
        return Tri.UNKNOWN, "the scored window has no verdict: too much was not judged"
    told = f"{share:.1%} of {window.rows} answers were low quality, limit {limit:.1%}"
    if share <= limit:
        return Tri.NO, told
    effective = window.effective_rows
    if effective is None or not 0 <= effective <= window.rows:
        effective = float(window.rows)
    rate = Rate(share, window.low or 0.0, window.high or 1.0, window.rows, effective)
    if exceeds(rate, limit, limits.false_alarm):
        return Tri.YES, told
    return Tri.UNKNOWN, f"{told}: not proven{_proof(effective, limits)}"


def _proof(rows: float, limits: TriggerLimits) -> str:
    """Say what would be proof; nothing where so many rows would take long to count through."""
    if rows > _MOST_COUNTED:
        return ""
    needed = hits_to_exceed(round(rows), limits.low_quality_rate, limits.false_alarm)
    asked = "more answers" if needed is None else f"{needed} low-quality ones of so many"
    return f", that takes {asked}"


def _input(
    window: ScorePoint,
    placed: Place,
    says: tuple[Tri, str],
    limits: TriggerLimits,
    why_not: str,
) -> dict[str, Any]:
    share = "no share" if window.share is None else f"{window.share:.1%} low"
    return reading(
        "scored window",
        window.score_id,
        window.end,
        placed,
        value=f"{share} of {window.rows} answers",
        limit=f"above {limits.low_quality_rate:.1%} of at least {limits.min_rows}",
        state=says[0],
        why_not=why_not,
        start=window.start,
        share=window.share,
        rows=window.rows,
        effective_rows=window.effective_rows,
        low=window.low,
        high=window.high,
        depth=window.depth.value,
        summary=window.summary.value,
    )


def _nothing(places: list[Place]) -> Note:
    codes = [placed.code for placed in places]
    if not codes:
        return Note("no_scores", "no window of production traffic has been scored")
    told = {
        "stale": "the newest scored window",
        "before_change": "every scored window",
        "clock": "the newest scored window",
        "other_depth": "the only score",
    }[codes[0]]
    return Note(codes[0], f"{told} {places[0].problem}")
