"""What was found about one sampling parameter, and the request it was sent with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from quality_lib.exchanges.exchange import Exchange
from quality_lib.records import Outcome, Verdict

_STRUCTURED = (
    "structured_outputs", "guided_json", "guided_grammar", "guided_regex", "guided_choice",
)  # fmt: skip
_CODE = regex.compile(
    r"```|(?i)\b(?:python|javascript|typescript|java|c\+\+|rust|golang|bash|sql|regex|dockerfile|html|css)\b"
    r"|\b(?:write|fix|debug|refactor|implement|complete)\b[^.\n]{0,40}"
    r"\b(?:code|function|class|script|method|program|query|unit tests?)\b"
)


@dataclass(frozen=True)
class Finding:
    """One parameter that is not as it should be, and what to send in its place."""

    name: str
    before: Any
    after: Any
    """None: leave the parameter out."""
    reason: str
    outcome: Outcome
    """PASSED: no harm, only without effect. SUSPECT: out of bounds or at odds. FAILED: impossible."""
    sentence: str


@dataclass(frozen=True)
class RequestContext:
    """What sampling depends on besides the parameters themselves."""

    has_structure: bool = False
    """Whether JSON, a grammar or a choice was asked for."""
    asks_for_code: bool = False


def context_of(exchange: Exchange) -> RequestContext:
    """Read structure and code from a request; code by a fence or the words people use."""
    return RequestContext(
        has_structure=is_structured(exchange), asks_for_code=bool(_CODE.search(exchange.last_asked))
    )


def is_structured(exchange: Exchange) -> bool:
    """Whether the answer must follow a grammar."""
    kind = (exchange.response_format or {}).get("type")
    if kind is not None and kind != "text":
        return True
    return any(exchange.params.get(name) for name in _STRUCTURED)


def verdict_of(findings: Sequence[Finding], passed: Verdict) -> Verdict:
    """Let the worst finding speak; all of them are evidence."""
    if not findings:
        return passed
    worst = max(findings, key=lambda finding: _WORSE[finding.outcome])
    return Verdict(
        worst.outcome, worst.reason, worst.sentence, {"findings": [_told(f) for f in findings]}
    )


_WORSE: Mapping[Outcome, int] = {
    Outcome.PASSED: 0,
    Outcome.UNJUDGED: 1,
    Outcome.SUSPECT: 2,
    Outcome.FAILED: 3,
}


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "parameter": finding.name,
        "before": _plain(finding.before),
        "after": finding.after,
        "reason": finding.reason,
    }


def _plain(value: Any) -> Any:
    """Keep odd values short and writable as JSON, which has no NaN and no infinity."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < 1e15:
        return value
    return shown(value)


def shown(value: Any) -> str:
    """Return a value as a short text; Python refuses to write out very long numbers."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    return str(value)[:60]
