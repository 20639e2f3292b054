"""Where a change probably sits, read off the channels that moved. Pure.

Detection anchors, 4.5. A hint for people; it takes no part in the decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from quality_lib.drift.contract import Breach
from quality_lib.drift.healthy import Healthy, folds
from quality_lib.drift.paired import Pair, z_scores
from quality_lib.drift.reading import GREEDY, SEEDED, Key

MOVED_MEAN = 2.0
MOVED_ONE = 2.5
"""E-folds above health that a channel's mean, or one of its probes, lies (factors of 7 and 12); only asked after a
change."""
SIGMAS = 4.0
"""Standard deviations of a count of forks."""
SHIFTED = 2.0
"""Stouffer's sum over the root of the number of probes. Their spread in health is far below the e-fold by which they
are divided."""
DESTROYED = 5.0
"""Nats per token: stored answers have become about as unlikely as any other text."""
_TEMPLATE = "chat template, tokenizer or system prompt: the prompts reach the model as other tokens"


def suspect(
    pairs: Sequence[Pair], healthy: Mapping[Key, Healthy], broken: Sequence[Breach]
) -> str | None:
    """Name the likely place of a change; None when nothing points anywhere."""
    from_contract = _by_contract(broken)
    if from_contract:
        return from_contract
    moved = moved_channels(pairs, healthy) or shifted_channels(pairs, healthy)
    known = {key[1] for key in healthy}
    raw, chat = "raw_scored" in moved, "chat_scored" in moved
    if chat and not raw and "raw_scored" in known:
        return _TEMPLATE
    if raw or chat:
        return _forward(pairs, healthy)
    if moved and moved <= {"long_context"}:
        return "long context: positions, truncation or paging of the KV cache"
    if moved & GREEDY:
        return "decoding: KV cache, penalties or decode kernels; scoring is the same"
    if moved & SEEDED:
        return "the sampler: scored and greedy answers are the same"
    return None


def moved_channels(pairs: Sequence[Pair], healthy: Mapping[Key, Healthy]) -> frozenset[str]:
    """Return the channels whose log-probabilities or texts lie far outside their healthy spread."""
    z = z_scores(pairs, healthy)
    found = set()
    for channel in {key[1] for key in healthy}:
        own = [value for key, value in z.items() if key[1] == channel]
        if own and (math.fsum(own) / len(own) >= MOVED_MEAN or max(own) >= MOVED_ONE):
            found.add(channel)
        mine = [p for p in pairs if p.key[1] == channel and p.key in healthy]
        forks = sum(p.fork is not None for p in mine)
        expected = math.fsum(healthy[p.key].fork_rate * p.exposed for p in mine)
        if forks - expected >= SIGMAS * math.sqrt(expected) + 1:
            found.add(channel)
    return frozenset(found)


def shifted_channels(pairs: Sequence[Pair], healthy: Mapping[Key, Healthy]) -> frozenset[str]:
    """Return the channels whose probes moved a little, together: their sum of z, signed or not, is large.

    Stouffer's sum over the root of the number of probes; asked when no channel stands out by itself.
    """
    found = set()
    for channel in {key[1] for key in healthy}:
        own = [p for p in pairs if p.key[1] == channel and p.key in healthy]
        z = list(z_scores(own, healthy).values())
        signed = [
            (folds(p.signed) - healthy[p.key].signed_mean) / healthy[p.key].signed_sd
            for p in own
            if p.signed is not None
        ]
        for values, total in ((z, math.fsum(z)), (signed, abs(math.fsum(signed)))):
            if values and total >= SHIFTED * math.sqrt(len(values)):
                found.add(channel)
    return frozenset(found)


def _by_contract(broken: Sequence[Breach]) -> str | None:
    codes = {b.code for b in broken}
    if codes & {"prompt_tokens", "prompt_digest", "scored_tokens"}:
        return _TEMPLATE
    if codes & {"flat_distribution", "token_zero_run", "logprob_not_finite"}:
        return "a destroyed weight (exponent bit) or NaN in the forward pass"
    if "constant_output" in codes:
        return "decoding: one token for ever"
    if codes & {"refused", "logprobs_missing", "logprobs_count", "logprob_null"}:
        return "the engine or its configuration: it refuses or cannot answer probes"
    return "server configuration" if codes else None


def _forward(pairs: Sequence[Pair], healthy: Mapping[Key, Healthy]) -> str:
    deltas = [
        p.delta
        for p in pairs
        if p.delta is not None and p.key in healthy and p.key[1].endswith("_scored")
    ]
    finite = [d for d in deltas if math.isfinite(d)]
    mean = math.fsum(finite) / len(finite) if finite else math.inf
    if mean >= DESTROYED:
        return "a destroyed weight (exponent bit) or NaN in the forward pass"
    z = z_scores(pairs, healthy)
    scored = [value for key, value in z.items() if key[1].endswith("_scored")]
    if sum(value >= MOVED_MEAN for value in scored) * 4 <= len(scored):
        return "few prompts moved: rarely used weights, or a fault in some of the requests"
    return "weights, quantisation, revision or kernels: the forward pass itself gives other numbers"
