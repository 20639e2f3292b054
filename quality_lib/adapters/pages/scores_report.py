"""The score report: one self-contained HTML file per scored window of a production log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from quality_lib.adapters.pages.rate_plot import MOST_POINTS, draw_rates
from quality_lib.adapters.pages.report_page import moment, page_environment
from quality_lib.records import Outcome, Summary, Tri
from quality_lib.scoring.limits import ScoreLimits
from quality_lib.scoring.replay import ReplayTotals
from quality_lib.scoring.result import Depth, GroupRate, ScorePoint, ScoreResult, by_cause
from quality_lib.scoring.tally import Kind
from quality_lib.scoring.worst import ShownRow

NO_NUMBER = "–"
MOST_GROUPS_SHOWN = 30
TONES = {
    Outcome.PASSED: "healthy",
    Outcome.SUSPECT: "degraded",
    Outcome.FAILED: "failed",
    Outcome.UNJUDGED: "inconclusive",
}
_KINDS = {
    Kind.SERVICE: "all answers",
    Kind.MODEL: "model",
    Kind.INSTANCE: "instance",
    Kind.SNAPSHOT: "snapshot",
    Kind.STRATUM: "kind of request",
}


@dataclass(frozen=True)
class RateRow:
    """One group in the table of rates."""

    name: str
    kind: str
    judged: int
    low: int
    suspect: int
    share: str
    interval: str
    tone: str
    start: float
    """The interval in percent of the bar."""
    width: float
    at: float


def render_scores(
    result: ScoreResult, history: Sequence[ScorePoint], limits: ScoreLimits | None = None
) -> str:
    """Return the report of one window as a complete HTML document.

    ``history`` holds earlier windows of the service in any order; an empty one is said in words.
    """
    limits = limits or ScoreLimits()
    scale = _scale(result, limits)
    points = [p for p in history if p.score_id != result.score_id]
    trend = None
    if points:
        trend = draw_rates([*points, _as_point(result)], result.score_id, limits)
    return (
        page_environment()
        .get_template("scores_report.html.j2")
        .render(
            result=result,
            verdict=result.verdict,
            tone=result.verdict.summary.value,
            tones=TONES,
            meaning=_meaning(result),
            start=moment(result.start),
            end=moment(result.end),
            figures=_figures(result, limits),
            rates=[_rate_row(rate, limits, scale) for rate in _shown(result)],
            rates_left=max(0, len(result.rates) - MOST_GROUPS_SHOWN),
            scale=f"{scale:.0%}",
            limit=round(100 * limits.alert_rate / scale, 1),
            causes=by_cause(result.counts),
            trend=trend,
            trend_svg=(Markup(trend.wide), Markup(trend.narrow)) if trend else (),  # noqa: S704
            trend_windows=min(len(points) + 1, MOST_POINTS),
            worst=[_worst(row) for row in result.worst],
            next_steps=tuple(_next_steps(result)),
            replay=result.replay,
            replay_figures=_replay_figures(result.replay),
        )
    )


def _as_point(result: ScoreResult) -> ScorePoint:
    rate = result.whole.rate
    return ScorePoint(
        score_id=result.score_id,
        end=result.end,
        depth=result.depth,
        summary=result.verdict.summary,
        changed=result.verdict.changed,
        rows=result.whole.judged,
        share=rate.share if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
    )


def _meaning(result: ScoreResult) -> str:
    match result.verdict.summary:
        case Summary.INCONCLUSIVE:
            return (
                "The log of this window does not allow a verdict. "
                "This says nothing about the answers, neither good nor bad."
            )
        case Summary.FAILED:
            return "Users are given broken answers."
        case Summary.DEGRADED:
            return "More answers than usual are broken."
        case _ if result.verdict.changed is Tri.YES:
            return (
                "The answers read well, but a healthy instance of the same snapshot would have "
                "written others: what serves is not what was registered."
            )
        case _:
            return "The answers that users were given are as they should be."


def _figures(result: ScoreResult, limits: ScoreLimits) -> tuple[tuple[str, str, str], ...]:
    """Return the few numbers to see first: name, number, what it is held against."""
    rate, whole, counts = result.whole.rate, result.whole, result.counts
    suspect = whole.suspect_rate
    left = sum(by_cause(counts).values())
    return (
        (
            "Low-quality answers",
            f"{rate.share:.1%}" if rate else NO_NUMBER,
            f"{rate.low:.1%} to {rate.high:.1%}; degraded > {limits.alert_rate:.0%}"
            if rate
            else f"at least {limits.min_rows} answers are needed",
        ),
        (
            "Answers judged",
            f"{whole.judged:,}",
            f"sampled from {counts.scored:,}, {whole.low:,} of low quality",
        ),
        (
            "Suspect answers",
            f"{suspect.share:.1%}" if suspect else NO_NUMBER,
            "worth a look; they do not count as low",
        ),
        ("Log entries read", f"{counts.entries:,}", f"{left:,} left out, see below"),
    )


def _shown(result: ScoreResult) -> list[GroupRate]:
    return [r for r in result.rates if r.kind is Kind.SERVICE or r.judged][:MOST_GROUPS_SHOWN]


def _scale(result: ScoreResult, limits: ScoreLimits) -> float:
    """Return what the right end of the bars stands for: every interval fits, the limit is in sight."""
    highest = max([r.rate.high for r in _shown(result) if r.rate], default=0.0)
    return min(1.0, max(4 * limits.alert_rate, math.ceil(highest * 20) / 20))


def _rate_row(group: GroupRate, limits: ScoreLimits, scale: float) -> RateRow:
    rate = group.rate
    if rate is None:
        return RateRow(
            name=group.name or _KINDS[group.kind],
            kind="" if group.kind is Kind.SERVICE else _KINDS[group.kind],
            judged=group.judged,
            low=group.low,
            suspect=group.suspect,
            share=NO_NUMBER,
            interval=NO_NUMBER,
            tone="inconclusive",
            start=0.0,
            width=0.0,
            at=0.0,
        )
    limit = limits.alert_rate
    tone = "failed" if rate.low > limit else "degraded" if rate.share > limit else "healthy"
    start, end, at = (min(1.0, v / scale) for v in (rate.low, rate.high, rate.share))
    return RateRow(
        name=group.name or _KINDS[group.kind],
        kind="" if group.kind is Kind.SERVICE else _KINDS[group.kind],
        judged=group.judged,
        low=group.low,
        suspect=group.suspect,
        share=f"{rate.share:.1%}",
        interval=f"{rate.low:.1%} to {rate.high:.1%}",
        tone=tone,
        start=round(100 * start, 1),
        width=round(100 * (end - start), 1),
        at=round(100 * at, 1),
    )


def _worst(row: ShownRow) -> Mapping[str, object]:
    facts = (
        ("Started", moment(row.started_at) if row.started_at else NO_NUMBER),
        ("Model", row.model or NO_NUMBER),
        ("Instance", row.instance or NO_NUMBER),
        ("Snapshot", row.snapshot_id[:12] or NO_NUMBER),
        ("Finish reason", row.finish_reason or NO_NUMBER),
        ("Parameters", row.params or "server defaults"),
        ("Log", row.key),
    )
    return {"row": row, "tone": TONES[row.outcome], "facts": facts}


def _replay_figures(replay: ReplayTotals | None) -> tuple[tuple[str, str], ...]:
    if replay is None:
        return ()
    mean = replay.mean_difference
    left = ", ".join(f"{n} {why.replace('_', ' ')}" for why, n in sorted(replay.skipped.items()))
    return (
        ("Answers replayed", f"{replay.rows:,}"),
        ("Tokens", f"{replay.tokens:,}"),
        ("Mean difference", NO_NUMBER if mean is None else f"{mean:.4f} nats per token"),
        ("Largest difference", f"{replay.largest:.3f} nats" if replay.compared else NO_NUMBER),
        ("Contradicted tokens", f"{replay.bad_tokens:,}"),
        ("Left out", left or "none"),
    )


def _next_steps(result: ScoreResult) -> Iterator[str]:
    """Yield what to do now."""
    verdict = result.verdict
    codes = {reason.reason for reason in verdict.reasons}
    if verdict.summary is Summary.INCONCLUSIVE:
        if codes & {"too_many_bad_lines"}:
            yield "See the first bad lines below: the log has another format than quality.yaml says."
        elif "redacted" in codes:
            yield "Let the gateway log messages, or score the records of the guarded server."
        elif "gates_crashed" in codes:
            yield "A gate is broken: its name is among the reasons below; this is a defect to report."
        else:
            yield "Nothing, when the service was quiet; else see why the log holds so little."
        return
    if verdict.is_good:
        yield "Nothing to do."
        return
    if "group_low_quality" in codes:
        yield "Take the named instance or model out of the route first; the others are fine."
    if verdict.summary is not Summary.HEALTHY:
        yield "Look at the worst answers below: their reasons say what kind of damage it is."
    yield "Trigger golden_hourly for this service: it tells whether the model itself has changed."
    if result.depth is Depth.QUICK:
        yield "The next deep pass tells more: perplexity, similarity, and replay on a healthy instance."
