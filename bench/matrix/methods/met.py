"""MET, model equality testing (Gao, Liang, Guestrin, ICLR 2025): MMD with a Hamming kernel on sampled answers.

Stratified by prompt: two answers are compared position by position when they answer the same prompt. The score is the
statistic itself; ``permutation_p`` gives the p-value of the paper. Re-implemented from the description; the tests hold
it against the authors' package.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import SAMPLED, Check

LENGTH = 50
"""Tokens of an answer that count."""
REFERENCE_CHECKS = 20
"""Healthy checks in the reference: about as many answers to a prompt as the authors use, and the cost grows with it."""
PAD = -1
Samples = Mapping[str, Sequence[tuple[int, ...]]]
"""Answers by prompt."""


def learn(healthy: Sequence[Check]) -> Scorer:
    """Take every healthy answer as the reference side."""
    reference = answers_of(healthy[:REFERENCE_CHECKS])
    length = longest(reference)
    inner = within(reference, length)

    def score(check: Check) -> float | None:
        own = {p: a for p, a in answers_of([check]).items() if p in reference}
        return statistic(own, reference, length, inner) if own else None

    return score


def answers_of(checks: Sequence[Check]) -> dict[str, list[tuple[int, ...]]]:
    """Return the sampled answers by prompt."""
    found: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for check in checks:
        for row in check.of(SAMPLED):
            found[row.case_id].append(row.token_ids[:LENGTH])
    return dict(found)


def agreement(one: Sequence[int], other: Sequence[int], length: int) -> float:
    """Return the share of positions at which two answers have the same token; short ones are padded alike."""
    if not length:
        return 0.0
    both = zip(_padded(one, length), _padded(other, length), strict=True)
    return sum(a == b for a, b in both) / length


def _padded(tokens: Sequence[int], length: int) -> list[int]:
    return [*tokens[:length], *([PAD] * (length - len(tokens)))]


def mmd(own: Samples, reference: Samples) -> float:
    """Return the squared maximum mean discrepancy, pooled over the prompts; pairs with oneself are left out."""
    length = max(longest(own), longest(reference))
    return statistic(own, reference, length, within(reference, length))


def statistic(own: Samples, reference: Samples, length: int, inner: float | None) -> float:
    """Return the same with the reference's inner term at hand.

    A side without a pair of answers to one prompt lends the other's inner term, or 1: then only the cross term speaks.
    """
    crossed = [
        agreement(a, b, length) for prompt in own for a in own[prompt] for b in reference[prompt]
    ]
    told = within(own, length)
    theirs = inner if inner is not None else told
    ours = told if told is not None else theirs
    return _or_one(ours) + _or_one(theirs) - 2 * sum(crossed) / len(crossed)


def within(samples: Samples, length: int) -> float | None:
    """Return the mean agreement of two different answers to one prompt; None without such a pair."""
    found = [
        agreement(answers[i], answers[j], length)
        for answers in samples.values()
        for i in range(len(answers))
        for j in range(i)
    ]
    return sum(found) / len(found) if found else None


def longest(samples: Samples) -> int:
    """Return the length of the longest answer, to which the others are padded."""
    return max((len(answer) for answers in samples.values() for answer in answers), default=0)


def _or_one(value: float | None) -> float:
    return 1.0 if value is None else value


def permutation_p(own: Samples, reference: Samples, rounds: int, seed: int) -> float:
    """Return the share of relabellings, within prompts, that are at least as far apart."""
    seen = mmd(own, reference)
    draws = random.Random(seed)
    at_least = 0
    for _ in range(rounds):
        left, right = {}, {}
        for prompt in own:
            pool = [*own[prompt], *reference[prompt]]
            draws.shuffle(pool)
            left[prompt], right[prompt] = pool[: len(own[prompt])], pool[len(own[prompt]) :]
        at_least += mmd(left, right) >= seen - 1e-12
    return (1 + at_least) / (1 + rounds)


METHOD = Method("MET", (SAMPLED,), learn, "Gao, Liang, Guestrin, arXiv 2410.20247")
