"""One check of a running server: asks everything in a unit's manner and gives back rows."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import httpx

from bench.faults.controls import Manner
from bench.matrix.answers import ordered, problem_row, replayed, row_of
from bench.matrix.probes import Ask, ProbeSet, Stored, replay
from bench.matrix.recording import SAMPLED, Row
from quality_lib.adapters.vllm.http import Refused, VllmHttp
from quality_lib.golden.sentinel_round import DECODE_LOAD

STRANGER = "Tell me something that nobody has asked about yet, number {}."
STRANGERS_TOKENS = 40
STRANGER_SHARE = 4
"""One stranger for so many requests of the load."""
DRAWN = frozenset({"seeded", SAMPLED})


class Asker:
    """Speaks to one server: through the shim for what is recorded, past it for everything else."""

    def __init__(self, shimmed: VllmHttp, plain: VllmHttp, model: str, probes: ProbeSet) -> None:
        self._shimmed = shimmed
        self._plain = plain
        self._model = model
        self._probes = probes

    async def store(self) -> dict[str, Stored]:
        """Let the healthy server give the answers that all checks will score."""
        stored = {}
        for ask in self._probes.decoding(self._model, "stored"):
            if ask.channel == "seeded":
                continue
            told = await self._plain.post(ask.path, ask.body)
            row = row_of(ask, told)
            # The end token is no part of the text, and the template writes its own.
            is_ended = row.finish_reason == "stop" and len(row.token_ids) > 1
            ids = row.token_ids[:-1] if is_ended else row.token_ids
            stored[ask.case_id] = Stored(row.text, tuple(told["prompt_token_ids"]), ids)
        return stored

    async def check(
        self, check_id: str, manner: Manner, stored: Mapping[str, Stored]
    ) -> tuple[tuple[Row, ...], float]:
        """Ask everything once; return the rows in the order of the plan and the seconds it took."""
        decoding = [
            *self._probes.decoding(self._model, check_id),
            *self._probes.sampling(self._model, check_id, check_id),
        ]
        decoding = [ask for ask in decoding if manner.draws or ask.channel not in DRAWN]
        scoring = [
            *self._probes.first_token(self._model),
            *self._probes.scoring(self._model, stored),
        ]
        async with self._strangers(manner.load):
            if manner.cache == "warm":
                warming = [_short(a) for a in decoding if a.channel in {"greedy", "long_context"}]
                await self._ask_all(warming, manner, manner.load)
            began = time.monotonic()
            # As the product asks: what must repeat bit for bit is alone in its batch, texts need not be.
            found = await self._ask_all(scoring, manner, manner.load)
            found |= await self._ask_all(decoding, manner, max(manner.load, DECODE_LOAD))
        rows = tuple(found[ask.key] for ask in (*scoring, *decoding))
        return rows, time.monotonic() - began

    async def replayed(
        self, rows: Sequence[Row], prompts: Mapping[str, Sequence[int]]
    ) -> tuple[Row, ...]:
        """Let the healthy server score the sampled answers; ``prompts`` are the healthy prompts' ids."""
        return tuple([await self._replay(row, prompts) for row in rows])

    async def prompts(self) -> dict[str, tuple[int, ...]]:
        """Return the ids of the healthy prompts of the sampled cases."""
        found = {}
        for case in self._probes.sampled:
            body = {"model": self._model, "messages": [dict(m) for m in case.messages]}
            found[case.id] = tuple((await self._plain.post("/tokenize", body))["tokens"])
        return found

    async def _replay(self, row: Row, prompts: Mapping[str, Sequence[int]]) -> Row:
        if row.channel != SAMPLED or not row.token_ids:
            return row
        length = len(row.token_ids)
        ids = [*prompts[row.case_id], *row.token_ids]
        ask = replay(row.case_id, row.attempt, ids, length, self._model)
        return dataclasses.replace(
            row, **replayed(await self._plain.post(ask.path, ask.body), length)
        )

    async def _ask_all(
        self, asks: Sequence[Ask], manner: Manner, at_once: int
    ) -> dict[tuple[str, str, int], Row]:
        slots = asyncio.Semaphore(at_once)
        found: dict[tuple[str, str, int], Row] = {}

        async def one(ask: Ask) -> None:
            async with slots:
                found[ask.key] = await self._ask(ask)

        async with asyncio.TaskGroup() as group:
            for ask in ordered(asks, manner.order):
                group.create_task(one(ask))
        return found

    async def _ask(self, ask: Ask) -> Row:
        try:
            return row_of(ask, await self._shimmed.post(ask.path, ask.body))
        except Refused as error:
            return problem_row(ask, str(error))
        except (httpx.TransportError, httpx.DecodingError) as error:
            return problem_row(ask, f"transport: {str(error) or type(error).__name__}")
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            return problem_row(ask, f"the answer cannot be read: {type(error).__name__}: {error}")

    @contextlib.asynccontextmanager
    async def _strangers(self, load: int) -> AsyncGenerator[None]:
        """Keep requests of nobody's interest under way."""
        tasks = [
            asyncio.create_task(self._stranger(number)) for number in range(load // STRANGER_SHARE)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stranger(self, number: int) -> None:
        round_number = 0
        while True:
            body: dict[str, Any] = {
                "model": self._model,
                "prompt": STRANGER.format(1000 * round_number + number),
                "max_tokens": STRANGERS_TOKENS,
                "temperature": 1.0,
                "ignore_eos": True,
            }
            # A harmed server may refuse strangers too; what counts is what the probes see.
            with contextlib.suppress(Refused):
                await self._plain.post("/v1/completions", body)
            round_number += 1


def _short(ask: Ask) -> Ask:
    return dataclasses.replace(ask, body={**ask.body, "max_tokens": 1})
