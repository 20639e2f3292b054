"""The golden report: one self-contained HTML file per golden run.

No script, no external resource: it reads the same from a disk, in MLflow's artifact viewer, on
paper and in the dark. Answers are untrusted text; everything is escaped and made visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from quality_lib.adapters.pages.report_drift import drift_section
from quality_lib.adapters.pages.report_page import moment, page_environment
from quality_lib.adapters.pages.report_rows import (
    CHANNEL_WORDS,
    FACT_OUTCOMES,
    NO_NUMBER,
    finding_row,
    nats,
    share,
)
from quality_lib.adapters.pages.report_words import meaning, next_steps
from quality_lib.adapters.pages.text_diff import SideBySide, shorten, side_by_side
from quality_lib.adapters.pages.trend_plot import MOST_RUNS, draw_trend
from quality_lib.golden.answer import Channel
from quality_lib.golden.comparison import CaseComparison, Finding, Statistic
from quality_lib.golden.result import GoldenResult, TrendPoint
from quality_lib.golden.verdict import WORST, Floors
from quality_lib.records import Outcome
from quality_lib.records import Verdict as CheckVerdict

_LONGEST_PROMPT = 700
_LONGEST_VALUE = 600
_FEW_SHARED = 0.35
"""Below this share of common text, marks on every word would say nothing."""


@dataclass(frozen=True)
class Fact:
    """One fact of the start-up check."""

    name: str
    sentence: str
    tone: str
    outcome: str


@dataclass(frozen=True)
class WorstCase:
    """One case with its texts side by side."""

    case: CaseComparison | None
    case_id: str
    channel: str = ""
    prompt: str = ""
    prompt_more: int = 0
    texts: SideBySide | None = None
    note: str | None = None
    numbers: tuple[tuple[str, str], ...] = ()


def render_report(
    result: GoldenResult, history: Sequence[TrendPoint], floors: Floors | None = None
) -> str:
    """Return the report of one golden check as a complete HTML document.

    ``history`` holds earlier checks of the service in any order; an empty one is said in words.
    """
    floors = floors or Floors()
    points = [p for p in history if p.run_id != result.run_id]
    rows = [finding_row(f) for f in result.comparison.findings]
    raw = _raw_scored(result)
    trend = None
    if points:
        limit = raw.limit if raw else None
        trend = draw_trend([*points, _as_point(result, raw)], result.run_id, floors, limit)
    return (
        page_environment()
        .get_template("golden_report.html.j2")
        .render(
            result=result,
            verdict=result.verdict,
            comparison=result.comparison,
            floors=floors,
            tone=result.verdict.summary.value,
            meaning=meaning(result),
            started=moment(result.started_at),
            next_steps=tuple(next_steps(result)),
            figures=_figures(result, raw, floors),
            drift=drift_section(result.drift) if result.drift else None,
            rows=rows,
            trend=trend,
            trend_svg=(Markup(trend.wide), Markup(trend.narrow)) if trend else (),  # noqa: S704
            trend_runs=min(len(points) + 1, MOST_RUNS),
            worst=_worst(result),
            facts=[_fact(v) for v in result.startup],
            environment=tuple(_flat(result.environment)),
        )
    )


def _as_point(result: GoldenResult, raw: Finding | None) -> TrendPoint:
    return TrendPoint(
        run_id=result.run_id,
        started_at=result.started_at,
        summary=result.verdict.summary,
        changed=result.verdict.changed,
        mean_similarity=result.comparison.mean_similarity,
        raw_logprob_delta=raw.value if raw else None,
        deployment_key=result.deployment_key,
        is_snapshot_deployment=result.is_snapshot_deployment,
    )


def _raw_scored(result: GoldenResult) -> Finding | None:
    return next(
        (
            f
            for f in result.comparison.findings
            if f.statistic is Statistic.LOGPROB_DELTA and f.channel is Channel.RAW_SCORED
        ),
        None,
    )


def _figures(
    result: GoldenResult, raw: Finding | None, floors: Floors
) -> tuple[tuple[str, str, str], ...]:
    """Return the few numbers to see first: name, number, what it is held against."""
    c = result.comparison
    answered = f"{c.judged:,} of {c.probes:,}"
    lost = f"{c.lost:,} lost on the way" if c.lost else "none lost on the way"
    return (
        (
            "Mean similarity",
            share(c.mean_similarity),
            f"alert < {floors.similarity_alert:.2f}, failed < {floors.similarity_failed:.2f}",
        ),
        (
            "Log-probability difference",
            nats(raw.value) if raw else NO_NUMBER,
            "nats per token; "
            + (f"limit {nats(raw.limit)}" if raw and raw.limit is not None else "no limit known"),
        ),
        ("Requests answered", answered, lost),
        (
            "Cases without an answer",
            f"{len(c.missing):,} of {len(c.cases):,}",
            "a missing case counts as bad",
        ),
    )


def _fact(verdict: CheckVerdict) -> Fact:
    tone, outcome = FACT_OUTCOMES[verdict.outcome]
    name = str(verdict.evidence.get("field", verdict.reason.removeprefix("startup_")))
    sentence = verdict.sentence.removeprefix(f"{name}: ")
    if verdict.outcome is Outcome.PASSED and verdict.evidence.get("found") is not None:
        # "as recorded" stands in the column beside it; the value says more.
        sentence = _plain(verdict.evidence["found"])
    return Fact(name, sentence, tone, outcome)


def _worst(result: GoldenResult) -> list[WorstCase]:
    known = {case.case_id: case for case in result.comparison.cases}
    return [_worst_case(i, known.get(i)) for i in result.verdict.worst_cases[:WORST]]


def _worst_case(case_id: str, case: CaseComparison | None) -> WorstCase:
    if case is None:
        return WorstCase(None, case_id, note="The result holds no details of this case.")
    texts = side_by_side(case.baseline_text, case.current_text)
    prompt, prompt_more = shorten(case.prompt, _LONGEST_PROMPT)
    note = None
    if case.baseline_text == case.current_text:
        note = "The two texts are the same."
    elif case.current_text and texts.shared < _FEW_SHARED:
        note = "The two texts have almost nothing in common."
    numbers = [
        ("Similarity", share(case.similarity)),
        ("Log-probability difference", nats(case.logprob_delta)),
    ]
    if case.healthy_facts is not None:
        numbers.append(("Key facts", f"{share(case.facts)}, healthy {share(case.healthy_facts)}"))
    if case.healthy_checks is not None:
        numbers.append(("Checks", f"{share(case.checks)}, healthy {share(case.healthy_checks)}"))
    return WorstCase(
        case=case,
        case_id=case_id,
        channel=CHANNEL_WORDS[case.channel],
        prompt=prompt,
        prompt_more=prompt_more,
        texts=texts,
        note=note,
        numbers=tuple(numbers),
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested facts as dotted names with short values."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
            continue
        yield f"{prefix}{name}", _plain(value)


def _plain(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if isinstance(value, Mapping):
        text = ", ".join(f"{k}={v}" for k, v in value.items())
    if value is None or not text:
        return "none"
    if len(text) > _LONGEST_VALUE:
        return f"{text[:_LONGEST_VALUE]} … {len(text) - _LONGEST_VALUE:,} more characters"
    return text
