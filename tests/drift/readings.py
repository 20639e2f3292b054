"""Readings of an invented server: seeded noise on stored log-probabilities, by block."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from quality_lib.drift.limits import DriftLimits
from quality_lib.drift.reading import Block, CheckReading, ProbeReading

TOKENS = 8
CASES = tuple(f"case{number}" for number in range(6))
CHANNELS = ("chat_scored", "raw_scored", "greedy", "seeded")
QUIET = Block("start0", 4, "warm")
LIMITS = DriftLimits(min_checks=120, min_blocks=12)
"""Smaller calibrations than in production, so that tests stay quick."""


def probe(case: str = "case0", channel: str = "chat_scored", **changes: object) -> ProbeReading:
    """Return one stored answer with everything that is known of it."""
    number = int(case.removeprefix("case") or 0)
    tokens = tuple(100 + number * 10 + place for place in range(TOKENS))
    whole = ProbeReading(
        case_id=case,
        channel=channel,
        token_ids=tokens,
        logprobs=tuple(-0.5 - 0.25 * place - 0.1 * number for place in range(TOKENS)),
        prompt_tokens=40 + number,
        prompt_digest=f"digest-{number}",
        finish_reason="length",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def check(
    probes: Sequence[ProbeReading], name: str = "check", block: Block = QUIET, at: str = ""
) -> CheckReading:
    return CheckReading(name, at or "2026-01-01T00:00:00+00:00", block, tuple(probes))


REFERENCE = check(
    [probe(case, channel) for case in CASES for channel in CHANNELS], name="reference"
)


@dataclass
class Server:
    """A server whose log-probabilities jitter; ``noise`` 0 repeats bit for bit."""

    seed: int = 0
    noise: float = 0.02
    forks: float = 0.03
    """Chance of a decoded answer to go another way."""
    block_noise: Callable[[Block], float] = lambda _: 1.0
    shift: float = 0.0
    """Nats that a fault takes from every token."""
    hit_share: float = 1.0
    """Share of the probes that the fault meets."""
    draw: Callable[[random.Random], float] = lambda rng: rng.gauss(0, 1)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.made = 0

    def read(
        self, block: Block = QUIET, burst: str | None = None, lost: Sequence[str] = ()
    ) -> CheckReading:
        self.made += 1
        scale = self.noise * self.block_noise(block)
        return CheckReading(
            check_id=f"s{self.seed}-{self.made}",
            at=f"2026-01-01T{self.made // 60 % 24:02d}:{self.made % 60:02d}:00+00:00",
            block=block,
            probes=tuple(
                replace(p, token_ids=(), logprobs=(), problem="transport: reset")
                if p.case_id in lost
                else self._answer(p, scale)
                for p in REFERENCE.probes
            ),
            burst=burst,
        )

    def _answer(self, known: ProbeReading, scale: float) -> ProbeReading:
        shift = self.shift if self.rng.random() < self.hit_share else 0.0
        if not scale and not shift:
            return known
        logprobs = tuple(
            x + scale * self.draw(self.rng) - shift for x in known.logprobs if x is not None
        )
        tokens = known.token_ids
        if known.channel in {"greedy", "seeded"} and self.rng.random() < self.forks:
            place = self.rng.randrange(TOKENS)
            tokens = (*tokens[:place], *(9 for _ in tokens[place:]))
        return replace(known, token_ids=tokens, logprobs=tuple(min(0.0, x) for x in logprobs))


def blocks(starts: int = 4, loads: Sequence[int] = (1, 4, 16)) -> list[Block]:
    return [
        Block(f"start{number}", load, "cold" if number % 2 else "warm")
        for number in range(starts)
        for load in loads
    ]


def healthy_checks(server: Server, each: int = 12, starts: int = 4) -> list[CheckReading]:
    """Return checks of every block; three in a row are a burst."""
    return [
        server.read(block, burst=f"{block.start}-{block.load}-{number // 3}")
        for block in blocks(starts)
        for number in range(each)
    ]


def made_by(server: Server, starts: int = 8) -> list[CheckReading]:
    """Return six bursts of every load and cache at every start."""
    return [
        server.read(Block(f"start{start}", load, cache), burst=f"{start}-{load}-{cache}-{burst}")
        for start in range(starts)
        for load in (1, 4, 16)
        for cache in ("cold", "warm")
        for burst in range(6)
        for _ in range(3)
    ]
