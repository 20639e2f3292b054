"""Golden answers as the readings that the drift decision is made of. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from quality_lib.drift.reading import TRANSPORT, Block, CheckReading, Key, ProbeReading
from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Channel, Fault, GoldenRun, ids_digest
from quality_lib.golden.baseline import Baseline

WARM, COLD = "warm", "cold"
"""``cold``: a prefix cache that nothing was asked of yet; ``warm``: the one that everybody shares."""


def scored_keys(baseline: Baseline, case_ids: Collection[str] | None = None) -> frozenset[Key]:
    """Return the stored answers that can be scored, as (case, channel); None: of every case."""
    return frozenset(
        (case_id, str(channel))
        for case_id, case in baseline.cases.items()
        if case_ids is None or case_id in case_ids
        for channel in case.scored
    )


def reference_of(baseline: Baseline, keys: Collection[Key]) -> CheckReading:
    """Return the baseline's stored answers as the check that others are held against."""
    wanted = sorted(key for key in keys if key in scored_keys(baseline))
    probes = []
    for case_id, channel in wanted:
        known = baseline.cases[case_id].scored[Channel(channel)]
        probes.append(
            ProbeReading(
                case_id,
                channel,
                _named(known.ids_digest, len(known.logprobs)),
                tuple(known.logprobs),
            )
        )
    return CheckReading(
        baseline.run_ids[0], baseline.created_at, Block("baseline", 1, WARM), tuple(probes)
    )


def reading_of_run(run: GoldenRun, start: str, keys: Collection[Key]) -> CheckReading:
    """Return what a golden run scored; it scores one probe at a time, with the shared cache."""
    return reading_of(
        run.answers.values(),
        check_id=run.run_id,
        at=datetime.fromisoformat(run.started_at),
        block=Block(start, 1, WARM),
        keys=keys,
    )


def reading_of(
    answers: Iterable[Answer],
    *,
    check_id: str,
    at: datetime,
    block: Block,
    keys: Collection[Key],
    burst: str | None = None,
) -> CheckReading:
    """Return scored answers as a reading, first attempts first; only the probes of ``keys``."""
    chosen = [
        answer
        for answer in answers
        if answer.probe.channel in SCORED_CHANNELS
        and (answer.probe.case_id, str(answer.probe.channel)) in keys
    ]
    chosen.sort(key=lambda a: (a.probe.attempt, a.probe.case_id, a.probe.channel))
    probes = tuple(_probe(answer) for answer in chosen)
    return CheckReading(check_id, at.isoformat(timespec="seconds"), block, probes, burst)


def _probe(answer: Answer) -> ProbeReading:
    probe = answer.probe
    problem = None
    if answer.fault is Fault.TRANSPORT:
        problem = f"{TRANSPORT}: {answer.error}"
    elif answer.fault is Fault.REFUSED:
        problem = f"refused: {answer.error}"
    tokens = _named(ids_digest(answer.token_ids), len(answer.token_ids))
    return ProbeReading(
        probe.case_id, str(probe.channel), tokens, tuple(answer.logprobs), problem=problem
    )


def _named(digest: str, count: int) -> tuple[int, ...]:
    """Stand in for the tokens of a scored answer, of which a baseline keeps only the digest.

    Equal answers get equal numbers, and others differ from the first one on: a stored answer that is
    split in another way is no longer comparable at any token.
    """
    return (int(digest[:12], 16),) * count
