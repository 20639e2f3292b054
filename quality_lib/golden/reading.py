"""Golden answers as the readings that the drift decision is made of. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from quality_lib.drift.paired import least_gaps
from quality_lib.drift.reading import GREEDY, TRANSPORT, Block, CheckReading, Key, ProbeReading
from quality_lib.golden.answer import (
    DECODE_CHANNELS,
    SCORED_CHANNELS,
    Answer,
    Channel,
    Fault,
    GoldenRun,
    ids_digest,
)
from quality_lib.golden.baseline import Baseline

DECODED = frozenset(map(str, DECODE_CHANNELS))
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


def is_decoded(reading: CheckReading) -> bool:
    """Whether the model was let answer in a check, beside scoring."""
    return any(probe.channel in DECODED for probe in reading.probes)


def decoded_keys(baseline: Baseline, case_ids: Collection[str]) -> frozenset[Key]:
    """Return how some cases are decoded, as (case, channel); those whose stored answer holds tokens."""
    return frozenset(
        (case_id, str(case.channel))
        for case_id, case in baseline.cases.items()
        if case_id in case_ids and case.reference.token_ids
    )


def reference_of(baseline: Baseline, keys: Collection[Key]) -> CheckReading:
    """Return the baseline's stored answers as the check that others are held against."""
    known = scored_keys(baseline) | decoded_keys(baseline, baseline.cases.keys())
    probes = tuple(_reference(baseline, *key) for key in sorted(known & frozenset(keys)))
    return CheckReading(
        baseline.run_ids[0], baseline.created_at, Block("baseline", 1, WARM), probes
    )


def _reference(baseline: Baseline, case_id: str, channel: str) -> ProbeReading:
    case = baseline.cases[case_id]
    if channel in DECODED:
        gaps = least_gaps(case.reference.logprobs) if channel in GREEDY else ()
        return ProbeReading(case_id, channel, tuple(case.reference.token_ids), (), gaps=gaps)
    known = case.scored[Channel(channel)]
    tokens = _named(known.ids_digest, len(known.logprobs))
    return ProbeReading(case_id, channel, tokens, tuple(known.logprobs))


def reading_of_run(
    run: GoldenRun, start: str, keys: Collection[Key], decoded: Sequence[ProbeReading] = ()
) -> CheckReading:
    """Return what a golden run scored; it scores one probe at a time, with the shared cache.

    ``decoded`` are the answers of a round beside the run: what the run itself decodes has all other
    cases in its batches, which no calibration has.
    """
    scored = reading_of(
        (a for a in run.answers.values() if a.probe.channel in SCORED_CHANNELS),
        check_id=run.run_id,
        at=datetime.fromisoformat(run.started_at),
        block=Block(start, 1, WARM),
        keys=keys,
    )
    return replace(scored, probes=(*scored.probes, *decoded), running=run.running)


def reading_of(
    answers: Iterable[Answer],
    *,
    check_id: str,
    at: datetime,
    block: Block,
    keys: Collection[Key],
    burst: str | None = None,
) -> CheckReading:
    """Return answers as a reading, first attempts first; only the probes of ``keys``."""
    chosen = [a for a in answers if (a.probe.case_id, str(a.probe.channel)) in keys]
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
    if probe.channel in DECODE_CHANNELS:
        # Tokens alone: its scores are those of another text once it forks, and its facts (prompt, ending)
        # are judged by the golden run.
        return ProbeReading(
            probe.case_id, str(probe.channel), tuple(answer.token_ids), (), problem=problem
        )
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
