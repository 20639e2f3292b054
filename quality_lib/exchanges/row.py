"""What reading one entry of a log gives: something to score, something left out, or a bad line. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quality_lib.exchanges.exchange import Exchange
from quality_lib.records import Verdict


class DropReason(StrEnum):
    """Why an entry is counted but not scored."""

    FAILURE = "failure"
    """The gateway or the server answered with an error."""
    CACHE_HIT = "cache_hit"
    """The gateway answered from its cache: the model did not write this text now."""
    SILENT_EXPERIMENT = "silent_experiment"
    """A mirrored request whose answer no user saw."""
    OWN_PROBE = "own_probe"
    """Traffic of this product: golden runs, warm-up, replay."""
    NOT_GENERATION = "not_generation"
    """Embeddings, reranking, transcription and other calls without a generated text."""
    REDACTED = "redacted"
    """The text was removed before it was logged."""
    TRUNCATED = "truncated"
    """The log cut the text, so its end says nothing about the model."""
    OTHER_SERVICE = "other_service"
    """The model is none of this service's."""
    OUTSIDE_WINDOW = "outside_window"
    """Older than the window and its look-back."""
    DUPLICATE = "duplicate"
    """The same request stands in the sample already."""
    NO_ANSWER = "no_answer"
    """A request alone: refused, abandoned, or still without its partner in another file."""
    NO_REQUEST = "no_request"
    """An answer of a batch whose input line was not found."""


@dataclass(frozen=True)
class Facts:
    """What a log tells about an exchange beside its text; empty or None where it tells nothing."""

    model: str = ""
    """As the caller named it (a gateway's model group)."""
    model_served: str = ""
    backend: str = ""
    """Address or id of the instance that answered."""
    stream: bool | None = None
    status: str = ""
    tags: tuple[str, ...] = ()
    ended_at: str = ""
    first_token_s: float | None = None
    """Seconds from the start to the first token."""
    stream_verdicts: tuple[Verdict, ...] = ()
    """What level 3 found wrong while the answer was generated: the log cannot show it again."""
    masked: frozenset[str] = frozenset()
    """Parts of the record, ``request`` and ``response``, in which personal data was masked."""


@dataclass(frozen=True)
class Scored:
    """An exchange that may be scored."""

    exchange: Exchange
    facts: Facts
    key: str
    """The object it was read from."""
    line: int
    """1-based line, or position of the document, in that object."""
    request_id: str
    """Shared by the choices of one request."""


@dataclass(frozen=True)
class Dropped:
    """An entry that is counted and not scored."""

    reason: DropReason
    key: str
    line: int
    request_id: str = ""


@dataclass(frozen=True)
class BadLine:
    """An entry that could not be understood."""

    key: str
    line: int
    problem: str


Row = Scored | Dropped | BadLine
