"""Probes and answers of a golden run: what is sent and what comes back. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Channel(StrEnum):
    """The way a probe looks at the server; together they tell which part of it moved."""

    GREEDY = "greedy"
    """Decoding at temperature 0: decode path, KV cache, penalties."""
    SEEDED = "seeded"
    """Decoding with a temperature and a seed: the sampler."""
    LONG_CONTEXT = "long_context"
    """Decoding after a long prompt: positions, truncation, paging."""
    CHAT_SCORED = "chat_scored"
    """A stored answer scored through the chat template: template, tokenizer and forward pass."""
    RAW_SCORED = "raw_scored"
    """The same answer scored as token ids: the forward pass alone."""
    CONTRACT = "contract"
    """Exact facts of the interface: token counts, names, limits, refusals."""


DECODE_CHANNELS = (Channel.GREEDY, Channel.SEEDED, Channel.LONG_CONTEXT)
SCORED_CHANNELS = (Channel.CHAT_SCORED, Channel.RAW_SCORED)


class Fault(StrEnum):
    """Why there is no answer."""

    TRANSPORT = "transport"
    """The request or its answer got lost: says nothing of the model's quality."""
    REFUSED = "refused"
    """The server answered with an error: the case is missing, and that is a failure."""


@dataclass(frozen=True)
class Probe:
    """One request of a golden run."""

    case_id: str
    channel: Channel
    attempt: int
    """1 meets a cold prefix cache, later ones a warm one."""

    @property
    def key(self) -> str:
        """Name the probe within its run."""
        return f"{self.case_id}/{self.channel}/{self.attempt}"


@dataclass(frozen=True)
class Answer:
    """What one probe brought."""

    probe: Probe
    text: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """``{"name", "arguments"}`` each; arguments as the server wrote them."""
    finish_reason: str | None = None
    prompt_token_ids: tuple[int, ...] = ()
    """Of a decoding probe: the prompt as the server tokenised it."""
    token_ids: tuple[int, ...] = ()
    """Decoding: the generated tokens. Scoring: the tokens that were scored."""
    logprobs: tuple[float | None, ...] = ()
    """Natural log-probability of each of ``token_ids``; None where the server gave no number."""
    latency_ms: float = 0.0
    fault: Fault | None = None
    error: str | None = None
    """The server's or the network's own words when there is a fault."""

    @property
    def is_judgeable(self) -> bool:
        """Whether there is something to compare."""
        return self.fault is None


def ids_digest(ids: Sequence[int]) -> str:
    """Return a short digest of token ids, for exact comparison."""
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class GoldenRun:
    """One complete execution of a golden set."""

    run_id: str
    service: str
    started_at: str
    """UTC, ISO 8601."""
    duration_s: float
    golden_digest: str
    model: str
    endpoint: str
    concurrency: int
    contract: Mapping[str, Any]
    """Facts of the CONTRACT channel, by name."""
    answers: Mapping[str, Answer]
    """By probe key."""
    reference_run_id: str | None = None
    """The run whose answers the scored channels scored; None: its own."""
    environment: Mapping[str, Any] | None = None
    deployment_key: str = ""
    """What was serving; runs of different deployments must not be mixed."""
    running: int | None = None
    """The most requests that the server worked on while it scored, other users' included; None: not told."""
