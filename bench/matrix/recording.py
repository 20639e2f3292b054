"""What was recorded of one check: values that every detector is scored on, without a server."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.faults.fault import Expected
from quality_lib.drift.reading import Block, CheckReading, ProbeReading

HEALTHY = "healthy"
"""Name of the fault that is none."""
FIRST_TOKEN = "first_token"
"""Channel: log-probabilities of the first token after the prompt ``x``."""
SAMPLED = "sampled"
"""Channel: answers at temperature 1 with another seed in each check."""
SCORED = ("chat_scored", "raw_scored")


class Track(StrEnum):
    """How noisy the healthy server is."""

    DETERMINISTIC = "deterministic"
    """One probe at a time and no noise: the CPU build repeats itself bit for bit."""
    NOISY = "noisy"
    """Random load, cache state and order, and jitter before the head, constant within a block."""
    MIXTURE = "mixture"
    """Composed from the noisy one: the fault hits a share of the requests."""


@dataclass(frozen=True)
class Row:
    """One probe of one check; a row of the Parquet files together with its check's ``Head``."""

    case_id: str
    channel: str
    attempt: int = 1
    token_ids: tuple[int, ...] = ()
    """Decoding: generated. Scoring: those of the stored answer."""
    logprobs: tuple[float | None, ...] = ()
    """Of ``token_ids``, as the server under test told them."""
    argmax_ids: tuple[int, ...] = ()
    """Scoring: the token that the server would have chosen at each position."""
    gaps: tuple[float, ...] = ()
    """Scoring: how far, in nats, the best token was ahead of the second at each position."""
    top_ids: tuple[int, ...] = ()
    """First token: the ids of the best candidates."""
    top_logprobs: tuple[float, ...] = ()
    replay_logprobs: tuple[float | None, ...] = ()
    """Sampled: log-probability of ``token_ids`` under the healthy model."""
    replay_ranks: tuple[int, ...] = ()
    """Sampled: rank of each token under the healthy model; 1 is the best."""
    prompt_tokens: int | None = None
    prompt_digest: str | None = None
    finish_reason: str | None = None
    text: str = ""
    problem: str | None = None
    """Why there is no answer; begins with ``transport`` when it got lost on the way."""
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """Name what is compared with what."""
        return self.case_id, self.channel, self.attempt


@dataclass(frozen=True)
class Head:
    """What a whole check has in common."""

    check_id: str
    start: int
    """Planned number of the server start: it alone decides which half the check belongs to."""
    server: str
    """The process that answered; another one after an interrupted recording."""
    track: Track
    fault: str = HEALTHY
    number: int = 0
    kind: str = HEALTHY
    expected: Expected = Expected.SILENT
    is_gross: bool = False
    seed: int = 0
    block: int = 0
    """Server hour: noise is constant within it."""
    load: int = 1
    cache: str = "cold"
    repeat: int = 0
    at: str = ""
    """UTC, ISO 8601."""
    seconds: float = 0.0
    share: float = 1.0
    """Mixture: of the requests, how many the fault hits."""


@dataclass(frozen=True)
class Check:
    """One recorded check."""

    head: Head
    rows: tuple[Row, ...]

    def of(self, *channels: str) -> list[Row]:
        """Return the rows of some channels that were answered, in order."""
        return [row for row in self.rows if row.channel in channels and row.problem is None]

    def missing(self, *channels: str) -> list[Row]:
        """Return the rows of some channels that the server itself did not answer."""
        return [
            row
            for row in self.rows
            if row.channel in channels
            and row.problem is not None
            and not row.problem.startswith("transport")
        ]

    @property
    def tokens(self) -> int:
        """Count the tokens of the whole check, in and out."""
        return sum(row.tokens_in + row.tokens_out for row in self.rows)

    def limited(self, cases: Collection[str]) -> Check:
        """Return the check as if only some cases had been asked."""
        rows = tuple(row for row in self.rows if row.case_id in cases)
        return dataclasses.replace(self, rows=rows)

    def as_reading(self) -> CheckReading:
        """Return what the product's statistics take: the channels they know."""
        known = {*SCORED, "greedy", "seeded", "long_context"}
        return CheckReading(
            self.head.check_id,
            self.head.at,
            Block(self.head.server, self.head.load, self.head.cache),
            tuple(
                ProbeReading(
                    row.case_id,
                    row.channel,
                    row.token_ids,
                    row.logprobs,
                    row.prompt_tokens,
                    row.prompt_digest,
                    row.finish_reason,
                    row.problem,
                )
                for row in self.rows
                if row.channel in known
            ),
        )


def by_kind(checks: Sequence[Check]) -> dict[tuple[int, str], list[Check]]:
    """Group checks by row and kind of their fault."""
    groups: dict[tuple[int, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.head.number, check.head.kind), []).append(check)
    return groups


def cases_of(checks: Sequence[Check]) -> list[str]:
    """Return every case that was asked, in order of appearance."""
    return list(dict.fromkeys(row.case_id for check in checks for row in check.rows))
