"""Learn a service's bounds from the healthy runs of its baseline, and from the same prompts at length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from quality_lib.adapters.vllm.learning_probe import ask_for_learning
from quality_lib.errors import OutsideFailure
from quality_lib.gates.bounds import LearnedBounds
from quality_lib.gates.learn import HealthyAnswer, learn
from quality_lib.golden.answer import DECODE_CHANNELS, GoldenRun
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.ports import Progress
from quality_lib.jobs.clock import Note
from quality_lib.settings import ServiceSettings, secret

Ask = Callable[[ServiceSettings, GoldenSet, Progress], Iterable[HealthyAnswer]]


def learn_bounds(
    service: ServiceSettings,
    cases: GoldenSet,
    runs: Sequence[GoldenRun],
    baseline: Baseline,
    *,
    progress: Progress,
    note: Note,
    ask: Ask | None = None,
) -> LearnedBounds:
    """Return what the runs and one more pass teach; without that pass, what the runs alone teach."""
    try:
        longer = tuple((ask or _ask)(service, cases, progress))
    except OutsideFailure as error:
        note(f"bounds are learned from the golden answers alone: {error}")
        longer = ()
    if longer and not any(answer.entropies for answer in longer):
        note(
            "the server tells no entropies, so their bounds stay constants; load the logits processor "
            "and the header middleware (docs/level-3.md) to learn them"
        )
    return learn([*answers_of(runs, baseline), *longer])


def answers_of(runs: Sequence[GoldenRun], baseline: Baseline) -> list[HealthyAnswer]:
    """Return the decoded answers of healthy runs, with their similarity to each other."""
    similarity = {
        (case_id, number): observation.similarity
        for case_id, case in baseline.cases.items()
        for number, observation in enumerate(case.observations)
    }
    return [
        HealthyAnswer(
            answer.probe.case_id,
            tokens=len(answer.token_ids),
            is_cut=answer.finish_reason == "length",
            logprobs=answer.logprobs,
            similarity=similarity.get((answer.probe.case_id, number)),
        )
        for number, run in enumerate(runs)
        for answer in run.answers.values()
        if answer.probe.channel in DECODE_CHANNELS and answer.is_judgeable and answer.token_ids
    ]


def _ask(
    service: ServiceSettings, cases: GoldenSet, progress: Progress
) -> tuple[HealthyAnswer, ...]:
    return ask_for_learning(
        service.endpoint,
        service.model,
        cases,
        concurrency=service.golden.concurrency,
        timeout_s=service.golden.request_timeout_s,
        api_key=secret(service.api_key_env),
        progress=progress,
    )
