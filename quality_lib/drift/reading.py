"""What one check of a server read: the answers to its probes as tokens and log-probabilities. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SCORED = frozenset({"chat_scored", "raw_scored"})
"""Channels that score stored answers: nothing is drawn, so nothing can fork."""
GREEDY = frozenset({"greedy", "long_context"})
"""Channels that decode without chance."""
SEEDED = frozenset({"seeded"})
"""Channels that replay a draw with its seed."""
TRANSPORT = "transport"

Key = tuple[str, str]
"""Case and channel."""


@dataclass(frozen=True)
class ProbeReading:
    """One answer."""

    case_id: str
    channel: str
    token_ids: tuple[int, ...]
    """Decoding: the generated tokens. Scoring: the tokens of the stored answer."""
    logprobs: tuple[float | None, ...]
    """Natural log-probability of each token; None where the server gave no number."""
    prompt_tokens: int | None = None
    prompt_digest: str | None = None
    """Digest of the prompt's token ids, as the server made them."""
    finish_reason: str | None = None
    problem: str | None = None
    """Why there is no answer. A text that begins with ``transport``: it got lost on the way, which
    says nothing of the model. Any other: the server refused or failed, in its own words."""
    gaps: tuple[float, ...] = ()
    """Of a reference that was decoded without chance: by how many nats each token was ahead of any other, at least."""

    @property
    def key(self) -> Key:
        """Name what is compared with what."""
        return self.case_id, self.channel

    @property
    def is_lost(self) -> bool:
        """Whether the request or its answer got lost on the way."""
        return self.problem is not None and self.problem.startswith(TRANSPORT)

    @property
    def is_refused(self) -> bool:
        """Whether the server itself gave no answer."""
        return self.problem is not None and not self.is_lost


@dataclass(frozen=True)
class Block:
    """Under what a check was made; checks of one block share its noise (detection anchors, 4.3.1)."""

    start: str
    """Names the start of the server: another one after each restart."""
    load: int
    """Requests under way at once, the probes' own included."""
    cache: str
    """State of the prefix cache, such as ``cold`` or ``warm``."""


@dataclass(frozen=True)
class CheckReading:
    """All probes of one check. A reference is one as well."""

    check_id: str
    at: str
    """UTC, ISO 8601."""
    block: Block
    probes: tuple[ProbeReading, ...]
    """A case may be there twice in one channel; the first is judged, the others show whether the
    server repeats itself."""
    burst: str | None = None
    """Names re-checks that were made right after each other; None: a check of its own."""
    running: int | None = None
    """The most requests that the server said it was working on at once, other users' included; None: it said nothing."""

    def answered(self) -> Mapping[Key, ProbeReading]:
        """Return the first answer of each case and channel."""
        found: dict[Key, ProbeReading] = {}
        for probe in self.probes:
            if probe.problem is None:
                found.setdefault(probe.key, probe)
        return found
