"""Layer 0: exact facts of every answer that health never breaks. Pure.

Detection anchors, 4.2 (L0). No tolerance and no statistics, so no healthy server breaks them by chance;
a repeat rules out what the way to the server may have damaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from quality_lib.drift.reading import SCORED, CheckReading, ProbeReading

ENDINGS = frozenset({"stop", "length", "tool_calls", "repetition"})
TOKEN_ZERO_RUN = 8
"""vLLM turns NaN logits into token 0; so many in a row, where the reference has none, are no text."""
CONSTANT_RUN = 16
FLAT_RANGE = 0.05
FLAT_LOGPROB = -6.0
"""A broken exponent makes all tokens nearly equally unlikely: the range over an answer stays below the
first, the mean below the second (pilot: ln of the vocabulary, -10.3; detection anchors, 2.3)."""


@dataclass(frozen=True)
class Breach:
    """One broken fact."""

    code: str
    case_id: str
    channel: str
    sentence: str
    is_garbage: bool = False
    """Whether it speaks of text without meaning, not only of a change."""


def breaches(reading: CheckReading, reference: CheckReading) -> tuple[Breach, ...]:
    """Return what is broken, in the order of the probes; lost answers break nothing."""
    known = reference.answered()
    return tuple(
        breach
        for probe in reading.probes
        if not probe.is_lost and (expected := known.get(probe.key)) is not None
        for breach in _of_probe(probe, expected)
    )


def _of_probe(probe: ProbeReading, expected: ProbeReading) -> Iterator[Breach]:
    def breach(code: str, what: str, garbage: bool = False) -> Breach:
        return Breach(
            code,
            probe.case_id,
            probe.channel,
            f"{probe.case_id} ({probe.channel}): {what}",
            garbage,
        )

    if probe.is_refused:
        yield breach("refused", f"the server gave no answer: {probe.problem}")
        return
    yield from (breach(code, what) for code, what in _prompt(probe, expected))
    yield from (breach(code, what) for code, what in _numbers(probe, expected))
    yield from (breach(code, what) for code, what in _ending(probe, expected))
    yield from (breach(code, what, garbage=True) for code, what in _garbage(probe, expected))


def _prompt(probe: ProbeReading, expected: ProbeReading) -> Iterator[tuple[str, str]]:
    if _differ(probe.prompt_tokens, expected.prompt_tokens):
        yield (
            "prompt_tokens",
            f"the prompt has {probe.prompt_tokens} tokens, it had {expected.prompt_tokens}",
        )
    elif _differ(probe.prompt_digest, expected.prompt_digest):
        yield "prompt_digest", "the prompt is made of other tokens"
    if probe.channel in SCORED and probe.token_ids != expected.token_ids:
        yield "scored_tokens", "the stored answer is split into other tokens"


def _numbers(probe: ProbeReading, expected: ProbeReading) -> Iterator[tuple[str, str]]:
    if expected.logprobs and not probe.logprobs and probe.token_ids:
        yield "logprobs_missing", "the server gives no log-probabilities any more"
        return
    if len(probe.logprobs) not in {0, len(probe.token_ids)}:
        yield "logprobs_count", f"{len(probe.logprobs)} numbers for {len(probe.token_ids)} tokens"
    holes = [
        place
        for place, value in enumerate(probe.logprobs)
        if value is None and place < len(expected.logprobs) and expected.logprobs[place] is not None
    ]
    if holes:
        yield "logprob_null", f"{len(holes)} log-probabilities are missing, first at {holes[0]}"
    wild = [x for x in probe.logprobs if x is not None and not math.isfinite(x)]
    if wild:
        yield "logprob_not_finite", f"{len(wild)} log-probabilities are {wild[0]}"
    above = [x for x in probe.logprobs if x is not None and x > 1e-3]
    if above and not wild:
        yield "logprob_above_zero", f"a log-probability is {above[0]:.3g}, which none can be"


def _ending(probe: ProbeReading, expected: ProbeReading) -> Iterator[tuple[str, str]]:
    now, then = probe.finish_reason, expected.finish_reason
    if now is None or then is None or now == then:
        return
    # Another text may well end in another way; the same text may not.
    if now not in ENDINGS or probe.token_ids == expected.token_ids:
        yield "finish_reason", f"it ended with '{now}', the stored one with '{then}'"


def _garbage(probe: ProbeReading, expected: ProbeReading) -> Iterator[tuple[str, str]]:
    if probe.channel in SCORED:
        if _is_flat(probe.logprobs) and not _is_flat(expected.logprobs):
            yield "flat_distribution", "every token of the stored answer is equally unlikely"
        return
    zeros = _longest_run(probe.token_ids, 0)
    if zeros >= TOKEN_ZERO_RUN and _longest_run(expected.token_ids, 0) < TOKEN_ZERO_RUN:
        yield "token_zero_run", f"token 0 comes {zeros} times in a row, as after NaN"
    run = _longest_run(probe.token_ids)
    if run >= CONSTANT_RUN and _longest_run(expected.token_ids) < CONSTANT_RUN:
        yield "constant_output", f"one token comes {run} times in a row"


def _differ(now: object, then: object) -> bool:
    """Whether both sides know the fact and it is another one; what is not told is not broken."""
    return now is not None and then is not None and now != then


def _is_flat(logprobs: Sequence[float | None]) -> bool:
    known = [x for x in logprobs if x is not None and math.isfinite(x)]
    return (
        len(known) >= TOKEN_ZERO_RUN
        and max(known) - min(known) <= FLAT_RANGE
        and math.fsum(known) / len(known) <= FLAT_LOGPROB
    )


def _longest_run(tokens: Sequence[int], wanted: int | None = None) -> int:
    return max(
        (
            sum(1 for _ in group)
            for token, group in groupby(tokens)
            if wanted is None or token == wanted
        ),
        default=0,
    )
