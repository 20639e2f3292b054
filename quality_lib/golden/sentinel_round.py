"""Score the stored answers of a few cases once, at a chosen load and cache state. Pure but for a client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence

from quality_lib.drift.reading import Key
from quality_lib.golden.answer import Answer, Channel, Fault, Probe
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.ports import ModelClient

GIVE_UP_AFTER = 5
"""Lost requests in a row (each already tried again by the client) after which no more are sent."""


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
    """Score every probe of ``keys``, ``load`` at once and in the order that ``seed`` draws.

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
            answer = await client.score(
                by_id[probe.case_id], probe, references[probe.case_id], cache_salt
            )
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
