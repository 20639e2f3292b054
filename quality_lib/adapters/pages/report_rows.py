"""One finding as a row of the golden report: names, numbers and the place within its band. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from quality_lib.golden.answer import Channel
from quality_lib.golden.comparison import Finding, Statistic
from quality_lib.records import Outcome

NO_NUMBER = "–"

_NAMES = {
    Statistic.SIMILARITY: "Similarity to healthy answers",
    Statistic.EXACT: "Exact match with healthy answers",
    Statistic.AGREEMENT: "Agreement of cold and warm cache",
    Statistic.FACTS: "Key facts found",
    Statistic.CHECKS: "Structure checks passed",
    Statistic.LOGPROB_DELTA: "Log-probability difference",
    Statistic.CONTRACT: "Interface facts that differ",
}
CHANNEL_WORDS = {
    Channel.GREEDY: "greedy decoding",
    Channel.SEEDED: "seeded sampling",
    Channel.LONG_CONTEXT: "long context",
    Channel.CHAT_SCORED: "stored answers, through the chat template",
    Channel.RAW_SCORED: "stored answers, as token ids",
    Channel.CONTRACT: "names, limits, prompt tokens",
}
_OUTCOMES = {
    Outcome.PASSED: ("healthy", "within band"),
    Outcome.SUSPECT: ("degraded", "suspect"),
    Outcome.FAILED: ("failed", "outside band"),
    Outcome.UNJUDGED: ("inconclusive", "not judged"),
}
_FEW = ("inconclusive", "too few to tell")
"""Below the band, but by fewer cases than chance moves: no finding, and no value within the band either."""
FACT_OUTCOMES = {
    Outcome.PASSED: ("healthy", "as recorded"),
    Outcome.SUSPECT: ("degraded", "suspect"),
    Outcome.FAILED: ("failed", "differs"),
    Outcome.UNJUDGED: ("inconclusive", "not judged"),
}


@dataclass(frozen=True)
class Row:
    """One finding as a row of the table."""

    name: str
    channel: str
    sentence: str | None
    value: str
    healthy: str
    limit: str
    cases: int
    tone: str
    outcome: str
    position: float | None
    """Where the value lies, in percent: 0 as healthy, 50 at the limit, 100 infinitely far off."""
    position_text: str


def finding_row(finding: Finding) -> Row:
    """Put one finding into words and numbers."""
    is_contract = finding.statistic is Statistic.CONTRACT
    tone, outcome = (FACT_OUTCOMES if is_contract else _OUTCOMES)[finding.outcome]
    ratio = _used(finding)
    is_few = finding.outcome is Outcome.PASSED and ratio is not None and ratio > 1
    if is_few:
        tone, outcome = _FEW
    # The other sentences only repeat the numbers of the row.
    says_more = is_contract or is_few or finding.outcome is Outcome.UNJUDGED
    if finding.statistic is Statistic.LOGPROB_DELTA:
        says_more = finding.outcome is not Outcome.PASSED
    shown = _whole if is_contract else share
    if finding.statistic is Statistic.LOGPROB_DELTA:
        shown = nats
    position = None if ratio is None else 100.0 if math.isinf(ratio) else 100 * ratio / (1 + ratio)
    return Row(
        name=_NAMES[finding.statistic],
        channel=CHANNEL_WORDS[finding.channel] if finding.channel else "all decoding channels",
        sentence=finding.sentence if says_more else None,
        value=shown(finding.value),
        healthy=shown(finding.healthy),
        limit=_limit(finding, shown),
        cases=finding.cases,
        tone=tone,
        outcome=outcome,
        position=None if position is None else round(position, 1),
        position_text=_used_text(ratio),
    )


def _limit(finding: Finding, shown: Callable[[float | None], str]) -> str:
    """Write the limit; health that varies that much allows every share."""
    return "none" if finding.limit is not None and finding.limit < 0 else shown(finding.limit)


def _used(finding: Finding) -> float | None:
    """Return how much of the way from healthy to the limit is used; above 1 is outside the band."""
    value, limit = finding.value, finding.limit
    if value is None or limit is None or math.isnan(value):
        return None
    healthy = finding.healthy if finding.healthy is not None else 0.0
    sign = 1.0 if finding.statistic in {Statistic.LOGPROB_DELTA, Statistic.CONTRACT} else -1.0
    off, room = sign * (value - healthy), sign * (limit - healthy)
    if off <= 0:
        return 0.0
    return off / room if room > 0 else math.inf


def _used_text(ratio: float | None) -> str:
    if ratio is None:
        return "no value to place in a band"
    if math.isinf(ratio):
        return "outside a band of no width"
    return f"{ratio:.0%} of the allowed distance from healthy"


def share(value: float | None) -> str:
    """Write a number between 0 and 1."""
    return NO_NUMBER if value is None or math.isnan(value) else f"{value:.3f}"


def _whole(value: float | None) -> str:
    return NO_NUMBER if value is None else f"{value:.0f}"


def nats(value: float | None) -> str:
    """Write a log-probability difference; exactly 0 and infinity are told apart from the rest."""
    if value is None or math.isnan(value):
        return NO_NUMBER
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    return f"{value:.4f}" if abs(value) >= 0.0001 else f"{value:.1e}"
