"""When a window of production answers is bad, and when nothing can be said. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class ScoreLimits:
    """Limits of the verdict over a window."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    alert_rate: float = 0.05
    """Share of low-quality answers above which the service is degraded (requirement R1, condition B)."""
    failed_rate: float = 0.25
    """Share above which it has failed: one user in four gets a bad answer."""
    group_rate: float = 0.25
    """Share above which one model, instance, snapshot or kind of request alone makes the service
    degraded; a small group hides in the whole."""
    false_alarm: float = 0.001
    """Chance with which an answer rate of exactly the limit would be called above it (exact binomial
    test). Healthy services lie far below the limit, so real false alarms are much rarer."""
    min_rows: int = 50
    """Fewer judged answers than this say nothing."""
    max_unjudged_share: float = 0.5
    """Above this share of answers that no gate could judge, the rest is no picture of the whole."""
    max_crashed_share: float = 0.05
    """Above this share of answers with a crashed gate, a good rate proves nothing."""
    confidence: float = 0.95
    """Of the intervals that are shown."""

    def __post_init__(self) -> None:
        shares = ("alert_rate", "failed_rate", "group_rate", "false_alarm", "confidence")
        for name in shares:
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between 0 and 1")
        for name in ("max_unjudged_share", "max_crashed_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1")
        if self.failed_rate < self.alert_rate:
            raise ValueError("failed_rate must not be below alert_rate")
        if self.min_rows < 1:
            raise ValueError("min_rows must be at least 1")


@dataclass(frozen=True)
class ReplayLimits:
    """When the reference contradicts what a server wrote (requirement G6.3)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mean_difference: float = 0.1
    """Mean |log-probability of the server - of the reference|, nats per token, that is still rounding.
    Three times what was measured on a healthy bf16 server, answers generated in a batch at
    temperatures 0 to 1.2 and replayed: 0.035 over 828 tokens."""
    token_difference: float = 1.0
    """One token disagrees beyond this many nats: three times the largest difference seen there (0.36)."""
    impossible_logprob: float = -15.0
    """Below this log-probability the reference finds a token impossible. A healthy server samples such
    tokens in less than 1 of 3,000,000 draws each, at temperature 1."""
    greedy_margin: float = 1.0
    """A greedy token may lie at most so many nats below the reference's best one: near-ties flip."""
    max_bad_tokens: int = 0
    """So many contradicting tokens of one answer are still taken for chance."""
    min_tokens: int = 200
    """Fewer replayed tokens than this say nothing."""
    reported: str = "raw"
    """What the server's log-probabilities are: ``raw`` (vLLM's default ``--logprobs-mode
    raw_logprobs``: before temperature, penalties and masks), or ``processed``, which cannot be
    compared with the reference."""

    def __post_init__(self) -> None:
        if self.reported not in {"raw", "processed"}:
            raise ValueError("reported must be 'raw' or 'processed'")
        if not (self.mean_difference > 0 and self.token_difference > 0 and self.greedy_margin > 0):
            raise ValueError("mean_difference, token_difference and greedy_margin must be above 0")
        if self.impossible_logprob >= 0:
            raise ValueError("impossible_logprob must be below 0")
        if self.min_tokens < 1 or self.max_bad_tokens < 0:
            raise ValueError("min_tokens must be at least 1 and max_bad_tokens at least 0")
