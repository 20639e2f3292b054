"""Ask a few cases once, at a chosen load and cache state: score stored answers, decode. Pure but for a client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from quality_lib.drift.reading import Block, CheckReading, Key
from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Channel, Fault, Probe
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.mode import Mode
from quality_lib.golden.ports import ModelClient
from quality_lib.golden.reading import DECODED, reading_of

GIVE_UP_AFTER = 5
"""Lost requests in a row (each already tried again by the client) after which no more are sent."""
DECODE_LOAD = 8
"""Answers that are decoded at once, in a check as in its calibration, whatever is configured: what else is in a
batch moves the last bits of a score, and with them a close race between two tokens."""


async def check_sentinel(
    cases: GoldenSet,
    references: Mapping[str, Answer],
    keys: Collection[Key],
    client: ModelClient,
    block: Block,
    name: str,
    at: datetime,
    *,
    burst: str,
    repeats: int = 1,
) -> CheckReading:
    """Ask the sentinel set once, as ``block`` says; ``name`` is the id of the check."""
    client.take_running()  # what was seen before this check
    answers = await ask_sentinel(
        cases, references, keys, client, Mode(block.load, block.cache), name,
        # A name that was used before a kill has met the cache, so the time is part of the salt.
        salt=f"{name}-{at.isoformat()}", repeats=repeats,
    )  # fmt: skip
    reading = reading_of(answers, check_id=name, at=at, block=block, keys=keys, burst=burst)
    return replace(reading, running=client.take_running())


async def ask_sentinel(
    cases: GoldenSet,
    references: Mapping[str, Answer],
    keys: Collection[Key],
    client: ModelClient,
    mode: Mode,
    name: str,
    *,
    salt: str,
    repeats: int = 1,
) -> tuple[Answer, ...]:
    """Ask every probe of ``keys``: stored answers are scored in a mode, then cases are decoded.

    Decoding is always done in one way: ``DECODE_LOAD`` at once, with a cold cache. ``name`` draws the order;
    ``salt`` is a cache salt that nobody used before. ``repeats``: attempts at each score.
    """
    scored = await ask_round(
        cases, references, [key for key in keys if key[1] not in DECODED], client,
        load=mode.load, cache_salt=mode.salt(salt), seed=name, repeats=repeats,
    )  # fmt: skip
    decoded = await ask_round(
        cases, references, [key for key in keys if key[1] in DECODED], client,
        load=DECODE_LOAD, cache_salt=f"{salt}-decoded", seed=name,
    )  # fmt: skip
    return *scored, *decoded


async def ask_round(
    cases: GoldenSet,
    references: Mapping[str, Answer],
    keys: Collection[Key],
    client: ModelClient,
    *,
    load: int,
    cache_salt: str,
    seed: str,
    repeats: int = 1,
) -> tuple[Answer, ...]:
    """Ask every probe of ``keys``, ``load`` at once and in the order that ``seed`` draws.

    All first attempts come before the second ones. What was not sent because the server is gone
    counts as lost.
    """
    by_id = {case.id: case for case in cases}
    slots = asyncio.Semaphore(load)
    answers: list[Answer] = []
    lost = 0

    async def one(probe: Probe) -> None:
        nonlocal lost
        async with slots:
            if lost >= GIVE_UP_AFTER:
                answers.append(Answer(probe, fault=Fault.TRANSPORT, error="the server is gone"))
                return
            case = by_id[probe.case_id]
            if probe.channel in SCORED_CHANNELS:
                answer = await client.score(case, probe, references[probe.case_id], cache_salt)
            else:
                answer = await client.decode(case, probe, cache_salt)
            lost = lost + 1 if answer.fault is Fault.TRANSPORT else 0
            answers.append(answer)

    for attempt in range(1, repeats + 1):
        async with asyncio.TaskGroup() as group:
            for case_id, channel in _shuffled(sorted(keys), f"{seed}/{attempt}"):
                group.create_task(one(Probe(case_id, Channel(channel), attempt)))
    return tuple(answers)


def _shuffled(keys: Sequence[Key], seed: str) -> list[Key]:
    order = list(keys)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, no secret
    return order
