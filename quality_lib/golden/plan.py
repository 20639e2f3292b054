"""Which probes a golden run sends, in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Channel, Probe
from quality_lib.golden.case import GoldenCase, GoldenSet

LONG_CONTEXT_TAG = "long_context"
ALONE_TAG = "alone"


@dataclass(frozen=True)
class Stage:
    """Probes that may be under way together; a stage starts when the one before has ended."""

    name: str
    probes: tuple[Probe, ...]
    concurrent: bool
    """Whether up to ``concurrency`` probes run at once; otherwise one at a time."""


def decode_channel(case: GoldenCase) -> Channel:
    """Return the channel through which the case is decoded."""
    if LONG_CONTEXT_TAG in case.tags:
        return Channel.LONG_CONTEXT
    return Channel.GREEDY if case.params.is_greedy else Channel.SEEDED


def scored_channels(case: GoldenCase) -> tuple[Channel, ...]:
    """Return the channels through which the case's stored answer is scored.

    A long prompt is scored raw alone: its template is that of the short ones, and reading it takes
    as long as twenty of them.
    """
    return (Channel.RAW_SCORED,) if LONG_CONTEXT_TAG in case.tags else SCORED_CHANNELS


def decode_stages(cases: GoldenSet) -> tuple[Stage, ...]:
    """Plan decoding: cold first, then the same again warm; ``alone`` cases one at a time."""
    alone = [case for case in cases if ALONE_TAG in case.tags]
    crowd = [case for case in cases if ALONE_TAG not in case.tags]
    stages = []
    for attempt in range(1, 1 + max((case.repeats for case in cases), default=0)):
        for name, group, concurrent in (("alone", alone, False), ("together", crowd, True)):
            probes = tuple(
                Probe(case.id, decode_channel(case), attempt)
                for case in group
                if case.repeats >= attempt
            )
            if probes:
                stages.append(Stage(f"decode {name}, pass {attempt}", probes, concurrent))
    return tuple(stages)


def scoring_stages(cases: GoldenSet, reference: Mapping[str, Answer]) -> tuple[Stage, ...]:
    """Plan teacher forcing of the reference answers that exist, every one also a second time.

    ``reference`` holds the decoded first attempts by case id. An answer of tool calls has no text
    of its own to put back through the chat template, so it is scored raw alone.

    Scoring goes one probe at a time: what else is in the batch changes the shape of the matrix
    products and with it the last bits, while the same prompt alone repeats bit for bit
    (``design/007-golden-verdict.md`` has the measurement).
    """
    repeats = max((case.repeats for case in cases), default=0)
    stages = []
    for attempt in range(1, 1 + repeats):
        for channel in SCORED_CHANNELS:
            probes = tuple(
                Probe(case.id, channel, attempt)
                for case in cases
                if case.repeats >= attempt
                and channel in scored_channels(case)
                and _is_scorable(reference.get(case.id), channel)
            )
            if probes:
                stages.append(Stage(f"{channel.replace('_', ' ')}, pass {attempt}", probes, False))
    return tuple(stages)


def _is_scorable(answer: Answer | None, channel: Channel) -> bool:
    if answer is None or not answer.is_judgeable or not answer.token_ids:
        return False
    if not answer.prompt_token_ids:
        return False
    return channel is Channel.RAW_SCORED or (bool(answer.text) and not answer.tool_calls)


def first_attempts(answers: Iterable[Answer]) -> dict[str, Answer]:
    """Return the decoded first attempt of each case, by case id."""
    return {
        answer.probe.case_id: answer
        for answer in answers
        if answer.probe.attempt == 1 and answer.probe.channel not in SCORED_CHANNELS
    }
