"""The noise that vLLM's sampler for processors adds to each log-probability of a seeded request, reproduced.

vLLM 0.32 draws one number for each step from the request's generator and hashes it with each token's id into
independent Gumbel noise (SplitMix64; Steele, Lea and Flood, OOPSLA 2014). So a token's noise depends on the seed, the step
and the token alone: not on the batch, the number of tokens or the order in which they are looked at.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.matrix.recording import Row

SEEDS = 2**31
"""Step seeds are drawn below it."""
GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
EULER = 0.5772156649015329
"""Mean of the noise, and of the winning value of a race."""
LOWEST_WINNER = -2.5
"""A winning value is Gumbel distributed, so it lies below this once in 200,000 draws."""
LEAST_TOKENS = 32


class Noise:
    """The noise of one request seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._steps: list[int] = []

    def of(self, step: int, token: int) -> float:
        """Return the noise of a token at a step of the generation; the first step is 0."""
        if step >= len(self._steps):
            self._steps = step_seeds(self._seed, 2 * (step + 16))
        return gumbel(self._steps[step], token)


def step_seeds(seed: int, count: int) -> list[int]:
    """Return the numbers that a request's generator gives, one a step."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return [
        int(torch.randint(0, SEEDS, (1,), generator=generator, dtype=torch.long).item())
        for _ in range(count)
    ]


def gumbel(step_seed: int, token: int) -> float:
    """Return the noise of one token."""
    bits = _mixed(_mixed(step_seed) + (token + 1) * GOLDEN) >> 11
    return -math.log(-math.log((bits + 0.5) / 2**53))


def _mixed(word: int) -> int:
    word &= WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def explains(rows: Sequence[Row], noise: Noise) -> bool:
    """Whether recorded answers at temperature 1 were drawn with this noise.

    Of a race the winning value has the mean of the noise itself, whatever the probabilities are. With other noise the
    mean is lower by the mean surprise, so the half way between decides; and single values must be possible.
    """
    told = [
        (score, noise.of(step, token))
        for row in rows
        for step, (token, score) in enumerate(zip(row.token_ids, row.logprobs, strict=False))
        if score is not None
    ]
    if len(told) < LEAST_TOKENS:
        return False
    surprise = -statistics.fmean(score for score, _ in told)
    winners = [score + drawn for score, drawn in told]
    return statistics.fmean(winners) > EULER - surprise / 2 and min(winners) > LOWEST_WINNER
