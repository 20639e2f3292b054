"""From counts to a verdict over a window: healthy, degraded, failed or inconclusive. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quality_lib.drift.rate import Rate, exceeds, hits_to_exceed
from quality_lib.exchanges.log_limits import ReadLimits
from quality_lib.exchanges.row import DropReason
from quality_lib.exchanges.sampling import Counts
from quality_lib.records import Outcome, Summary, Tri, Verdict
from quality_lib.scoring.limits import ReplayLimits, ScoreLimits
from quality_lib.scoring.replay import ReplayTotals, judge_replay
from quality_lib.scoring.result import GroupRate, ScoreVerdict, empty_rate
from quality_lib.scoring.tally import Group, Kind, Tally

_GROUP_WORDS = {
    Kind.MODEL: "the model",
    Kind.INSTANCE: "the instance",
    Kind.SNAPSHOT: "the snapshot",
    Kind.STRATUM: "requests of the kind",
}


def judge_window(
    service: str,
    counts: Counts,
    groups: Sequence[Group],
    replay: ReplayTotals | None,
    limits: ScoreLimits,
    reading: ReadLimits,
    replay_limits: ReplayLimits,
    *,
    is_deep: bool,
) -> ScoreVerdict:
    """Judge what was counted. No data is never a pass, and unreadable data is never bad quality."""
    whole = next((g.tally for g in groups if g.kind is Kind.SERVICE), Tally())
    changed, replay_verdict = Tri.UNKNOWN, None
    if is_deep:
        changed, replay_verdict = judge_replay(replay, replay_limits)
    unreadable = _unreadable(counts, whole, reading, limits)
    bad = [] if unreadable else _bad(whole, groups, limits)
    partial = [] if unreadable or bad else _partial(whole, limits)
    if unreadable or partial:
        summary = Summary.INCONCLUSIVE
    elif not bad:
        summary = Summary.HEALTHY
    else:
        is_failed = any(v.reason == "low_quality_failed" for v in bad)
        summary = Summary.FAILED if is_failed else Summary.DEGRADED
    reasons = [*bad, *unreadable, *partial]
    if summary is Summary.HEALTHY:
        reasons.append(_healthy(whole, limits))
    if replay_verdict is not None:
        reasons.append(replay_verdict)
    reasons.sort(key=lambda v: _ORDER.index(v.outcome))
    headline = _headline(service, summary, changed, whole.low_rate(limits.confidence), reasons)
    return ScoreVerdict(summary, changed, tuple(reasons), headline)


_ORDER = (Outcome.FAILED, Outcome.SUSPECT, Outcome.UNJUDGED, Outcome.PASSED)


def rates_of(groups: Sequence[Group], limits: ScoreLimits) -> tuple[GroupRate, ...]:
    """Return the rate of each group with its interval; the whole service is there even when empty."""
    found = [
        GroupRate(
            kind=g.kind,
            name=g.name,
            rows=g.tally.rows,
            judged=g.tally.judged,
            low=g.tally.low,
            suspect=g.tally.suspect,
            rate=g.tally.low_rate(limits.confidence),
            suspect_rate=g.tally.suspect_rate(limits.confidence),
        )
        for g in groups
    ]
    if not any(g.kind is Kind.SERVICE for g in found):
        found.insert(0, empty_rate())
    return tuple(found)


def _unreadable(
    counts: Counts, whole: Tally, reading: ReadLimits, limits: ScoreLimits
) -> list[Verdict]:
    """Return why the log gives no picture of the answers; nothing when it does."""
    entries, bad = counts.entries, counts.bad_lines
    if counts.gone > reading.max_bad_share * counts.objects:
        return [
            _unjudged(
                "objects_gone",
                f"{counts.gone:,} of {counts.objects:,} log objects were deleted before they were read, "
                f"{reading.max_bad_share:.0%} are allowed.",
            )
        ]
    if entries == 0:
        return [_unjudged("no_data", "The window holds no log entry.")]
    if bad > reading.max_bad_share * entries:
        example = f", first {counts.bad_examples[0].problem}" if counts.bad_examples else ""
        return [
            _unjudged(
                "too_many_bad_lines",
                f"{bad:,} of {entries:,} log entries could not be understood, "
                f"{reading.max_bad_share:.0%} are allowed{example}.",
            )
        ]
    redacted = counts.dropped.get(DropReason.REDACTED, 0)
    generated = counts.scored + redacted
    if redacted > reading.max_redacted_share * generated:
        return [
            _unjudged(
                "redacted",
                f"{redacted:,} of {generated:,} answers were logged without their text: "
                "switch the gateway's message logging on, or score the server's own records.",
            )
        ]
    if whole.judged < limits.min_rows:
        left = f"; {sum(counts.dropped.values()):,} entries were left out" if counts.dropped else ""
        return [
            _unjudged(
                "too_few_rows",
                f"Only {whole.judged:,} answers could be judged, {limits.min_rows:,} are needed"
                f"{left}.",
            )
        ]
    return []


def _partial(whole: Tally, limits: ScoreLimits) -> list[Verdict]:
    """Return why a good rate proves nothing."""
    unjudged = whole.rows - whole.judged
    found = []
    if unjudged > limits.max_unjudged_share * whole.rows:
        found.append(
            _unjudged(
                "mostly_unjudged",
                f"No gate could say anything of {unjudged:,} of {whole.rows:,} answers.",
            )
        )
    if whole.crashed > limits.max_crashed_share * whole.rows:
        found.append(
            _unjudged(
                "gates_crashed",
                f"A gate crashed on {whole.crashed:,} of {whole.rows:,} answers: the checker is broken.",
            )
        )
    return found


def _bad(whole: Tally, groups: Sequence[Group], limits: ScoreLimits) -> list[Verdict]:
    rate = whole.low_rate(limits.confidence)
    if rate is None:
        return []
    for limit, reason in (
        (limits.failed_rate, "low_quality_failed"),
        (limits.alert_rate, "low_quality"),
    ):
        if exceeds(rate, limit, limits.false_alarm):
            sentence = f"{_share_words(rate)} of the answers are of low quality, limit {limit:.0%}."
            return [Verdict(Outcome.FAILED, reason, sentence, _evidence(rate, limit))]
    return _bad_groups(groups, limits)


def _bad_groups(groups: Sequence[Group], limits: ScoreLimits) -> list[Verdict]:
    """Return the groups that are bad though the whole is not; the more are asked, the stricter."""
    parts = [g for g in groups if g.kind is not Kind.SERVICE and g.tally.judged]
    found = []
    for group in parts:
        rate = group.tally.low_rate(limits.confidence)
        if rate is None or rate.rows < limits.min_rows // 5:
            continue
        # Bonferroni: with a hundred groups, one would be bad by chance a hundred times as often.
        if exceeds(rate, limits.group_rate, limits.false_alarm / len(parts)):
            found.append(
                Verdict(
                    Outcome.FAILED,
                    "group_low_quality",
                    f"{_share_words(rate)} of the answers of {_GROUP_WORDS[group.kind]} "
                    f"'{group.name}' are of low quality, limit {limits.group_rate:.0%}.",
                    {
                        "kind": group.kind.value,
                        "group": group.name,
                        **_evidence(rate, limits.group_rate),
                    },
                )
            )
    return found


def _healthy(whole: Tally, limits: ScoreLimits) -> Verdict:
    rate = whole.low_rate(limits.confidence)
    if rate is None:
        raise ValueError("a window without judged rows is not healthy")
    needed = hits_to_exceed(rate.rows, limits.alert_rate, limits.false_alarm)
    more = f"; {needed} of so many would prove more than {limits.alert_rate:.0%}" if needed else ""
    return Verdict(
        Outcome.PASSED,
        "quality_good",
        f"{whole.low:,} of {whole.judged:,} judged answers are of low quality{more}.",
        _evidence(rate, limits.alert_rate),
    )


def _headline(
    service: str, summary: Summary, changed: Tri, rate: Rate | None, reasons: Sequence[Verdict]
) -> str:
    if summary is Summary.INCONCLUSIVE:
        why = next(v for v in reasons if v.outcome is Outcome.UNJUDGED and "replay" not in v.reason)
        words = f"{service} INCONCLUSIVE: {_lower(why.sentence)}"
    elif summary is Summary.HEALTHY and rate is not None:
        words = f"{service} HEALTHY: {_share_words(rate)} low-quality answers"
    else:
        words = f"{service} {summary.value.upper()}: {_lower(reasons[0].sentence)}"
    if changed is Tri.YES:
        words += " The reference contradicts the served answers."
    return words


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _share_words(rate: Rate) -> str:
    return f"{rate.share:.1%} ({rate.low:.1%} to {rate.high:.1%}, {rate.rows:,} judged)"


def _evidence(rate: Rate, limit: float) -> dict[str, float]:
    return {
        "share": rate.share,
        "low": rate.low,
        "high": rate.high,
        "rows": rate.rows,
        "effective_rows": rate.effective_rows,
        "limit": limit,
    }


def _unjudged(reason: str, sentence: str) -> Verdict:
    return Verdict(Outcome.UNJUDGED, reason, sentence)
