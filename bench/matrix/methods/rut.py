"""RUT, rank-based uniformity test (Zhu et al., ICLR 2026): where does an answer stand among those of the reference?

Each sampled answer is scored by the mean logarithm of the ranks of its tokens under the reference model. Its place among
the healthy answers to the same prompt, ties broken by chance, is uniform in health; the score is the distance of
Cramér and von Mises from that. Re-implemented from the description.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.matrix.methods.method import Method, Scorer
from bench.matrix.recording import SAMPLED, Check, Row

REFERENCE_CHECKS = 50
"""Healthy checks in the reference: a hundred answers to each prompt, as the authors use."""


def learn(healthy: Sequence[Check]) -> Scorer:
    """Take the healthy answers as the reference sample of each prompt."""
    known: dict[str, list[float]] = defaultdict(list)
    for check in healthy[:REFERENCE_CHECKS]:
        for row in check.of(SAMPLED):
            if (told := log_rank(row)) is not None:
                known[row.case_id].append(told)

    def score(check: Check) -> float | None:
        return statistic(check, known)

    return score


def log_rank(row: Row) -> float | None:
    """Return the mean log rank of an answer's tokens; None where the answer was not replayed."""
    ranks = row.replay_ranks
    return sum(math.log(rank) for rank in ranks) / len(ranks) if ranks else None


def statistic(check: Check, known: Mapping[str, Sequence[float]]) -> float | None:
    """Return the distance from uniform of the places of a check's answers; None without answers."""
    draws = random.Random(check.head.check_id)
    places = []
    for row in check.of(SAMPLED):
        told, others = log_rank(row), known.get(row.case_id, ())
        if told is not None and others:
            places.append(place(told, others, draws.random()))
    return cramer_von_mises(places) if places else None


def place(value: float, others: Sequence[float], luck: float) -> float:
    """Return the randomised rank in [0, 1] of a value among others."""
    below = sum(other < value for other in others)
    equal = sum(other == value for other in others)
    return (below + luck * (equal + 1)) / (len(others) + 1)


def cramer_von_mises(places: Sequence[float]) -> float:
    """Return the statistic of one sample against the uniform distribution."""
    n = len(places)
    ordered = sorted(places)
    return 1 / (12 * n) + sum((u - (2 * i + 1) / (2 * n)) ** 2 for i, u in enumerate(ordered))


METHOD = Method("RUT", (SAMPLED,), learn, "Zhu et al., arXiv 2506.06975")
