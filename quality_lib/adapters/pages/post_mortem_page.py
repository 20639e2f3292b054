"""The post-mortem as one self-contained HTML file and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from quality_lib.adapters.pages.post_mortem_rows import tensor_row, worst_cases
from quality_lib.adapters.pages.report_page import moment, page_environment
from quality_lib.adapters.pages.report_rows import NO_NUMBER, share
from quality_lib.rollout.cause import Confidence
from quality_lib.rollout.post_mortem import PostMortem
from quality_lib.rollout.post_mortem_facts import Facts

MOST_TENSORS = 20
MOST_FILES = 20
MOST_EVENTS = 300

_STATE_TONES = {"yes": "failed", "no": "healthy", "unknown": "inconclusive"}
_CONFIDENCE_TONES = {
    Confidence.PROVEN: "failed",
    Confidence.LIKELY: "degraded",
    Confidence.POSSIBLE: "inconclusive",
    Confidence.UNKNOWN: "inconclusive",
}


class _File(BaseModel):
    """The JSON file's content; infinite numbers become texts."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    report: PostMortem


@dataclass(frozen=True)
class Input:
    """One input of the decision as a row."""

    condition: str
    name: str
    at: str
    value: str
    limit: str
    tone: str
    state: str
    note: str


@dataclass(frozen=True)
class ServedRow:
    """One backend in one phase."""

    phase: str
    backend: str
    is_first: bool
    """Whether the phase begins with it."""
    rows: int
    """Backends of the phase."""
    weight: int | None
    requests: int
    share: str
    failed: int
    cut: int
    slowest: str
    since: str


def render_post_mortem(report: PostMortem) -> str:
    """Return a complete HTML document."""
    facts = report.facts
    template = page_environment().get_template("post_mortem.html.j2")
    return template.render(
        report=report,
        facts=facts,
        record=facts.record,
        tone=report.tone,
        opened=moment(facts.record.opened_at.isoformat()),
        closed=moment(facts.record.closed_at.isoformat()) if facts.record.closed_at else "not yet",
        figures=_figures(report),
        confidence_tones=_CONFIDENCE_TONES,
        conditions=tuple(_conditions(facts)),
        inputs=tuple(_inputs(facts)),
        timeline=tuple(_timeline(facts)),
        served=tuple(_served(facts)),
        weights=_weights(facts),
        checks=tuple(_checks(facts)),
        cases=tuple(worst_cases(facts.before, facts.after)),
        tensors=tuple(tensor_row(t) for t in facts.tensors.changed[:MOST_TENSORS])
        if facts.tensors
        else (),
        compared=tuple(c for c in facts.compared if not c.is_same)
        + tuple(c for c in facts.compared if c.is_same),
        live_tone=_STATE_TONES[facts.live.state.value] if facts.live else "inconclusive",
        most_tensors=MOST_TENSORS,
        most_files=MOST_FILES,
        most_events=MOST_EVENTS,
    )


def post_mortem_json(report: PostMortem) -> str:
    """Return the report as JSON; infinite numbers are texts."""
    data = json.loads(_File(report=report).model_dump_json())["report"]
    return json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True)


def seconds(value: float | None) -> str:
    """Write a duration for people."""
    if value is None or not math.isfinite(value):
        return NO_NUMBER
    if value < 90:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 90:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _figures(report: PostMortem) -> tuple[tuple[str, str, str], ...]:
    totals = report.totals
    return (
        (
            "Decision to all traffic",
            seconds(report.decided_to_full_s),
            "until the target had 100 %"
            if report.decided_to_full_s
            else "the target never had 100 %",
        ),
        (
            "Whole incident",
            seconds(report.duration_s),
            "from the decision to the end" if report.duration_s else "it is not closed",
        ),
        (
            "Requests during the shift",
            f"{totals.requests:,}" if totals else NO_NUMBER,
            f"slowest {seconds(totals.slowest_s)}" if totals else "nothing was measured",
        ),
        (
            "Failed or cut",
            f"{totals.failed + totals.cut:,}" if totals else NO_NUMBER,
            f"{totals.failed:,} failed, {totals.cut:,} cut" if totals else "nothing was measured",
        ),
    )


def _conditions(facts: Facts) -> Iterator[tuple[str, str, str, str]]:
    for condition in _list(facts.decision.get("conditions")):
        state = str(condition.get("state", "unknown"))
        yield (
            str(condition.get("name", "?")),
            _STATE_TONES.get(state, "inconclusive"),
            state,
            str(condition.get("sentence", "")),
        )


def _inputs(facts: Facts) -> Iterator[Input]:
    for condition in _list(facts.decision.get("conditions")):
        for one in _list(condition.get("inputs")):
            state = str(one.get("state", "unknown"))
            why_not = str(one.get("why_not") or "")
            named = " ".join(str(one[key]) for key in ("source", "name") if one.get(key))
            yield Input(
                condition=str(condition.get("name", "?")),
                name=named,
                at=moment(str(one.get("at") or "")),
                value=_text(one.get("value")),
                limit=_text(one.get("limit")),
                tone=_STATE_TONES.get(state, "inconclusive"),
                state=state,
                note=f"not counted: {why_not}" if why_not else str(one.get("sentence") or ""),
            )


def _timeline(facts: Facts) -> Iterator[tuple[str, str, str, str]]:
    record = facts.record
    yield moment(record.opened_at.isoformat()), "0 s", "decided", record.reason
    for event in facts.events[:MOST_EVENTS]:
        passed = (event.at - record.opened_at).total_seconds()
        yield (
            moment(event.at.isoformat()),
            f"+{seconds(max(0.0, passed))}",
            event.step,
            event.what,
        )
    if record.closed_at is not None:
        passed = (record.closed_at - record.opened_at).total_seconds()
        yield moment(record.closed_at.isoformat()), f"+{seconds(passed)}", "closed", record.state


def _served(facts: Facts) -> Iterator[ServedRow]:
    for phase in facts.phases:
        total = sum(one.requests for one in phase.served.values())
        order = list(phase.weights)
        names = sorted(phase.served, key=lambda n: (order.index(n) if n in order else 999, n))
        for number, name in enumerate(names):
            one = phase.served[name]
            yield ServedRow(
                phase=phase.name,
                backend="no backend took them" if name == "-" else name,
                is_first=number == 0,
                rows=len(names),
                weight=phase.weights.get(name),
                requests=one.requests,
                share=f"{100 * one.requests / total:.0f} %" if total else NO_NUMBER,
                failed=one.failed,
                cut=one.cut,
                slowest=seconds(one.slowest_s) if one.requests else NO_NUMBER,
                since=moment(phase.since),
            )


def _weights(facts: Facts) -> tuple[tuple[str, str, str, str], ...]:
    """Return name, address, percent before and percent after, of every backend of both tables."""
    before = {b.name: b for b in facts.table_before.backends} if facts.table_before else {}
    after = {b.name: b for b in facts.table_after.backends} if facts.table_after else {}
    rows = []
    for name in dict.fromkeys([*before, *after]):
        one = before.get(name) or after[name]
        then = f"{before[name].weight} %" if name in before else "not in the route"
        now = f"{after[name].weight} %" if name in after else "not in the route"
        rows.append((
            name,
            one.address,
            then if before else NO_NUMBER,
            now if after else NO_NUMBER,
        ))
    return tuple(rows)


def _checks(facts: Facts) -> Iterator[tuple[str, str, str, str, str]]:
    for name, result in (("what was bad", facts.before), ("the target", facts.after)):
        if result is None:
            yield name, "inconclusive", "not known", NO_NUMBER, "There is no golden check to show."
            continue
        yield (
            name,
            result.verdict.summary.value,
            result.verdict.summary.value,
            share(result.comparison.mean_similarity),
            result.verdict.headline,
        )


def _list(value: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list | tuple):
        return ()
    return [one for one in value if isinstance(one, Mapping)]


def _text(value: Any) -> str:
    if value is None or value == "":
        return NO_NUMBER
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)[:200]
