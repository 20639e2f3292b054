"""Production answers held against a healthy reference that was made to write them again. Pure.

The reference is teacher-forced: it reads the tokens that the server wrote and says how likely it found
each. A healthy server of the same snapshot agrees up to rounding, whatever was sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from quality_lib.exchanges.exchange import Exchange
from quality_lib.records import Outcome, Tri, Verdict
from quality_lib.scoring.limits import ReplayLimits

MOST_TOKENS_SHOWN = 8
MOST_ROWS_SHOWN = 20
_CONTEXT = 60
HIDDEN = "[masked]"
_BENDING = (
    "logit_bias", "presence_penalty", "frequency_penalty", "bad_words", "allowed_token_ids",
    "min_tokens", "guided_json", "guided_regex", "guided_grammar", "guided_choice",
    "structured_outputs", "logits_processors",
)  # fmt: skip
"""Parameters after which the chosen token need not be likely; the reported values are from before."""


_MASKS = re.compile(
    r"\[(?:email|card|iban|phone|ip|private_key|jwt|aws_key|api_key|token|password)\]"
)
"""What ``exchanges/masking.py`` leaves in the place of what it masks."""


class Skip(StrEnum):
    """Why an exchange cannot be replayed."""

    NO_TOKENS = "no_token_ids"
    """The log holds no token ids of the answer (``gates.log.detail_share``)."""
    NO_PROMPT = "no_prompt"
    MASKED = "prompt_masked"
    """Personal data was masked in the prompt: what the server read is not in the log."""
    PROMPT_DIFFERS = "prompt_tokens_differ"
    """The reference's template or tokenizer gives another number of prompt tokens than was counted."""
    REFUSED = "reference_refused"
    """The reference did not take the prompt: too long, or a field it does not know."""


class Contradiction(StrEnum):
    """How the reference contradicts one token."""

    IMPOSSIBLE = "impossible_token"
    DISAGREES = "logprob_disagrees"
    NOT_GREEDY = "not_greedy"


@dataclass(frozen=True)
class Replayed:
    """What the reference said of one answer, token by token."""

    logprobs: tuple[float | None, ...]
    best: tuple[float | None, ...]
    """Log-probability of the token that the reference finds likeliest at that place."""
    pieces: tuple[str, ...]
    """The tokens as text."""


@dataclass(frozen=True)
class BadToken:
    """One token that the reference contradicts."""

    position: int
    """0-based, in tokens of the answer."""
    offset: int
    """The same in characters."""
    piece: str
    contradiction: Contradiction
    reference: float
    reported: float | None
    context: str = ""
    """The text around it; ``HIDDEN``, as the piece is, where anything there was masked."""


@dataclass(frozen=True)
class RowReplay:
    """One replayed answer."""

    id: str
    started_at: str
    instance: str
    tokens: int
    compared: int
    """Tokens with a reported log-probability that may be compared."""
    difference_sum: float
    largest: float
    bad_count: int
    bad: tuple[BadToken, ...]
    """The first few of them."""

    @property
    def mean_difference(self) -> float | None:
        """Return the mean |difference| in nats per token."""
        return self.difference_sum / self.compared if self.compared else None


@dataclass(frozen=True)
class ReplayTotals:
    """All replayed answers of a partition or a window; adds up."""

    rows: int = 0
    tokens: int = 0
    compared: int = 0
    difference_sum: float = 0.0
    largest: float = 0.0
    bad_tokens: int = 0
    flagged: int = 0
    """Answers with more contradicted tokens than chance allows."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    shown: tuple[RowReplay, ...] = ()

    def __add__(self, other: ReplayTotals) -> ReplayTotals:
        skipped = dict(self.skipped)
        for reason, count in other.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
        shown = sorted((*self.shown, *other.shown), key=lambda r: (-r.bad_count, r.id))
        return ReplayTotals(
            self.rows + other.rows,
            self.tokens + other.tokens,
            self.compared + other.compared,
            self.difference_sum + other.difference_sum,
            max(self.largest, other.largest),
            self.bad_tokens + other.bad_tokens,
            self.flagged + other.flagged,
            skipped,
            tuple(shown[:MOST_ROWS_SHOWN]),
        )

    @property
    def mean_difference(self) -> float | None:
        """Return the mean |difference| over all compared tokens, nats per token."""
        return self.difference_sum / self.compared if self.compared else None


def hold_against(
    exchange: Exchange, said: Replayed, limits: ReplayLimits, mask: Any = lambda text: text
) -> RowReplay:
    """Compare one answer, token by token, with what the reference said of it."""
    answer = exchange.answer
    if answer is None or answer.token_ids is None:
        raise ValueError("an answer without token ids cannot be held against a reference")
    count = len(answer.token_ids)
    reported = _reported(answer.logprobs, count, limits)
    is_bent = bends_logits(exchange)
    is_greedy = _is_greedy(exchange) and not is_bent
    differences: list[float] = []
    bad: list[BadToken] = []
    bad_count = 0
    offset, text, masked = 0, "".join(said.pieces), None
    for place in range(count):
        reference, own, best = said.logprobs[place], reported[place], said.best[place]
        piece = said.pieces[place]
        if reference is not None:
            if own is not None:
                differences.append(abs(own - reference))
            found = _contradiction(reference, own, best, limits, is_greedy, is_bent)
            bad_count += found is not None
            if found is not None and len(bad) < MOST_TOKENS_SHOWN:
                masked = mask(text) if masked is None else masked
                piece_shown, context = _shown(text, masked, offset, piece)
                bad.append(
                    BadToken(place, offset, piece_shown, found, round(reference, 4), own, context)
                )
        offset += len(piece)
    return RowReplay(
        id=exchange.id,
        started_at=exchange.started_at,
        instance=exchange.endpoint,
        tokens=count,
        compared=len(differences),
        difference_sum=sum(differences),
        largest=max(differences, default=0.0),
        bad_count=bad_count,
        bad=tuple(bad),
    )


def _shown(text: str, masked: str, offset: int, piece: str) -> tuple[str, str]:
    """Return a token and what stands around it, as far as masking the whole text has left it alone.

    A part of a secret is none that could be recognised, so the whole is masked before it is cut.
    """
    around = text[max(0, offset - _CONTEXT) : offset + len(piece) + _CONTEXT]
    return (piece, around) if around in masked else (HIDDEN, HIDDEN)


def _contradiction(
    reference: float,
    own: float | None,
    best: float | None,
    limits: ReplayLimits,
    is_greedy: bool,
    is_bent: bool,
) -> Contradiction | None:
    disagrees = own is not None and abs(own - reference) > limits.token_difference
    if reference < limits.impossible_logprob and not is_bent and (own is None or disagrees):
        # Where the server itself reported it as that unlikely, it was a rare draw and no fault.
        return Contradiction.IMPOSSIBLE
    if disagrees:
        return Contradiction.DISAGREES
    if is_greedy and best is not None and best - reference > limits.greedy_margin:
        return Contradiction.NOT_GREEDY
    return None


def totals_of(row: RowReplay, limits: ReplayLimits) -> ReplayTotals:
    """Return the totals of one replayed answer; only one that is flagged is shown."""
    is_flagged = row.bad_count > limits.max_bad_tokens
    return ReplayTotals(
        rows=1,
        tokens=row.tokens,
        compared=row.compared,
        difference_sum=row.difference_sum,
        largest=row.largest,
        bad_tokens=row.bad_count,
        flagged=int(is_flagged),
        shown=(row,) if is_flagged else (),
    )


def skipped(reason: Skip) -> ReplayTotals:
    """Return the totals of one answer that could not be replayed."""
    return ReplayTotals(skipped={reason.value: 1})


def judge_replay(totals: ReplayTotals | None, limits: ReplayLimits) -> tuple[Tri, Verdict]:
    """Say whether what serves is still the reference; UNKNOWN where too little was replayed."""
    if totals is None:
        return Tri.UNKNOWN, Verdict(
            Outcome.UNJUDGED,
            "replay_not_done",
            "No answer was replayed: no reference is configured (scoring.replay_endpoint).",
        )
    evidence = {
        "answers": totals.rows,
        "tokens": totals.tokens,
        "mean_difference": totals.mean_difference,
        "largest_difference": totals.largest,
        "contradicted_tokens": totals.bad_tokens,
        "contradicted_answers": totals.flagged,
        "skipped": dict(totals.skipped),
    }
    if totals.tokens < limits.min_tokens:
        why = _skip_words(totals.skipped)
        return Tri.UNKNOWN, Verdict(
            Outcome.UNJUDGED,
            "replay_too_few_tokens",
            f"Only {totals.tokens} tokens of {totals.rows} answers could be replayed, "
            f"{limits.min_tokens} are needed{why}.",
            evidence,
        )
    mean = totals.mean_difference
    if mean is not None and totals.compared >= limits.min_tokens and mean > limits.mean_difference:
        return Tri.YES, Verdict(
            Outcome.FAILED,
            "replay_logprobs_moved",
            f"The server's log-probabilities differ from the reference's by {mean:.3f} nats per "
            f"token in the mean; rounding explains {limits.mean_difference:g}.",
            evidence,
        )
    if totals.flagged > 1:
        return Tri.YES, Verdict(
            Outcome.FAILED,
            "replay_contradicts",
            f"The reference contradicts {totals.bad_tokens} tokens in {totals.flagged} of "
            f"{totals.rows} replayed answers.",
            evidence,
        )
    if totals.flagged == 1:
        return Tri.UNKNOWN, Verdict(
            Outcome.SUSPECT,
            "replay_contradicts_once",
            f"The reference contradicts {totals.bad_tokens} tokens of one of {totals.rows} replayed "
            "answers; one alone may be a request that the log shows incompletely.",
            evidence,
        )
    shown = "" if mean is None else f", mean difference {mean:.3f} nats per token"
    return Tri.NO, Verdict(
        Outcome.PASSED,
        "replay_agrees",
        f"The reference agrees with {totals.tokens} tokens of {totals.rows} answers{shown}.",
        evidence,
    )


def holds_masks(text: str) -> bool:
    """Whether a text looks as if something of it had been masked."""
    return _MASKS.search(text) is not None


def bends_logits(exchange: Exchange) -> bool:
    """Whether the request changes the choice of tokens by more than temperature and truncation."""
    params = exchange.params
    if exchange.response_format and exchange.response_format.get("type", "text") != "text":
        return True
    choice, penalty = params.get("tool_choice"), params.get("repetition_penalty")
    # A forced call is written under a grammar.
    is_forced = choice is not None and choice != "auto" and choice != "none"
    is_penalised = penalty is not None and penalty != 1
    return is_forced or is_penalised or any(params.get(name) for name in _BENDING)


def _is_greedy(exchange: Exchange) -> bool:
    temperature = exchange.params.get("temperature")
    return isinstance(temperature, int | float) and temperature == 0


def _reported(
    logprobs: Sequence[float] | None, count: int, limits: ReplayLimits
) -> tuple[float | None, ...]:
    if logprobs is None or len(logprobs) != count or limits.reported != "raw":
        return (None,) * count
    return tuple(logprobs)


def _skip_words(counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    told = ", ".join(f"{n} × {reason.replace('_', ' ')}" for reason, n in sorted(counts.items()))
    return f" (left out: {told})"
