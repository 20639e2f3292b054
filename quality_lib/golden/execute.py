"""Carry out a golden run through a client and a recorder. Pure but for what those two do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from quality_lib.errors import OutsideFailure
from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Fault, Probe
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.plan import Stage, decode_stages, first_attempts, scoring_stages
from quality_lib.golden.ports import ModelClient, Progress, Recorder

GIVE_UP_AFTER = 20
"""Transport faults in a row (each already retried by the client) after which the server counts as
gone: the run stops, keeps what it has, and can be resumed."""


@dataclass
class _Tally:
    done: int
    total: int
    lost_in_a_row: int = 0


async def execute(
    cases: GoldenSet,
    client: ModelClient,
    recorder: Recorder,
    *,
    concurrency: int,
    cache_salt: str,
    reference: Mapping[str, Answer] | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Answer]:
    """Send every probe that the recorder lacks and return all answers by probe key.

    ``reference`` holds the answers to score, by case id; None scores the run's own answers.
    ``cache_salt`` keeps the prefix cache of earlier runs out of the first pass.

    Raises:
        OutsideFailure: the server went away; answers so far are with the recorder.
    """
    by_id = {case.id: case for case in cases}
    # What had no answer is asked again: a refusal may have been the last word of a dying engine.
    answers = {key: a for key, a in recorder.recorded().items() if a.is_judgeable}
    stages = decode_stages(cases)
    tally = _Tally(done=0, total=2 * sum(len(stage.probes) for stage in stages))

    async def ask(probe: Probe, own: Mapping[str, Answer]) -> Answer:
        case = by_id[probe.case_id]
        if probe.channel in SCORED_CHANNELS:
            return await client.score(case, probe, (reference or own)[probe.case_id])
        return await client.decode(case, probe, cache_salt)

    async def run_stage(stage: Stage, own: Mapping[str, Answer]) -> None:
        slots = asyncio.Semaphore(concurrency if stage.concurrent else 1)

        async def one(probe: Probe) -> None:
            async with slots:
                if tally.lost_in_a_row >= GIVE_UP_AFTER:
                    return
                if probe.key not in answers:
                    answer = await ask(probe, own)
                    recorder.record(answer)
                    answers[probe.key] = answer
                    lost = answer.fault is Fault.TRANSPORT
                    tally.lost_in_a_row = tally.lost_in_a_row + 1 if lost else 0
                    if tally.lost_in_a_row >= GIVE_UP_AFTER:
                        raise OutsideFailure(
                            f"the server stopped answering during '{stage.name}': {answer.error}. "
                            "What was answered is kept; run the same command again to resume."
                        )
                tally.done += 1
                progress(stage.name, tally.done, tally.total)

        async with asyncio.TaskGroup() as group:
            for probe in stage.probes:
                group.create_task(one(probe))

    try:
        for stage in stages:
            await run_stage(stage, {})
        own = first_attempts(answers.values())
        later = scoring_stages(cases, reference if reference is not None else own)
        tally.total = tally.done + sum(len(stage.probes) for stage in later)
        for stage in later:
            await run_stage(stage, own)
    except BaseExceptionGroup as group:
        raise _outside_failure(group) from None
    return answers


def _outside_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that ended the run if it is the only kind; else the group itself.

    Not ``except*``: what is raised inside it may come out wrapped in a group again.
    """
    gone, other = group.split(OutsideFailure)
    return gone.exceptions[0] if gone is not None and other is None else group
