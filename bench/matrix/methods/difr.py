"""Token-DiFR (Karvonen et al., 2025) on seeded answers: how far apart are the tokens that the same draw chose?

A sampler takes the token whose log-probability plus noise is the largest, and with the seed the noise is known
(``sampler_noise``). At the first token that differs from the healthy answer both servers saw the same context, and each
server's winning value is known from its recording. The score is the distance of the two, clipped, per token that could
have differed. A race that healthy rounding has turned is close by construction and counts next to nothing.

The published margin takes both values from the reference, at every token. That cannot be had here: no recording holds
the healthy model's score of a token that it did not draw, nor its scores of other tokens in a context that only the
served answer has. Where the noise does not explain the healthy answers (another engine), each fork counts as clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.matrix.methods.method import Method, Scorer, pairs
from bench.matrix.methods.sampler_noise import Noise, explains
from bench.matrix.probes import SEED
from bench.matrix.recording import Check, Row
from quality_lib.drift.variants import first_difference

CLIP = 0.5
"""Nats; the authors' own."""


def learn(healthy: Sequence[Check]) -> Scorer:
    """Replay the seeds of the first healthy check; see whether the noise is the one that its sampler drew."""
    noise = Noise(SEED)
    known = noise if explains(healthy[0].of("seeded"), noise) else None
    return lambda check: margin(check, healthy[0], known)


def margin(check: Check, reference: Check, noise: Noise | None) -> float | None:
    """Return clipped margins per token that could have forked; a refused answer is one at its first token."""
    refused = len(check.missing("seeded"))
    total, exposed = refused * CLIP, refused
    for row, other in pairs(check, reference, "seeded"):
        fork = first_difference(row.token_ids, other.token_ids)
        exposed += len(other.token_ids) if fork is None else fork + 1
        total += 0.0 if fork is None else distance(row, other, fork, noise)
    return total / exposed if exposed else None


def distance(row: Row, other: Row, place: int, noise: Noise | None) -> float:
    """Return how far the winning values of two servers lie apart at one place; ``CLIP`` where that is not known."""
    values = [winning_value(one, place, noise) for one in (row, other)]
    if values[0] is None or values[1] is None:
        return CLIP
    return min(CLIP, abs(values[0] - values[1]))


def winning_value(row: Row, place: int, noise: Noise | None) -> float | None:
    """Return the log-probability of the chosen token plus its noise; None where either is not known."""
    if noise is None or place >= min(len(row.token_ids), len(row.logprobs)):
        return None
    score = row.logprobs[place]
    return None if score is None else score + noise.of(place, row.token_ids[place])


METHOD = Method("Token-DiFR", ("seeded",), learn, "Karvonen et al., arXiv 2511.20621")
