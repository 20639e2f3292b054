"""A small golden set and healthy runs of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from quality_lib.golden.answer import Answer, GoldenRun
from quality_lib.golden.baseline import Baseline, build_baseline
from quality_lib.golden.case import GoldenCase, GoldenSet, Params
from quality_lib.golden.execute import execute
from quality_lib.golden.plan import first_attempts
from tests.fakes_model import FakeModel, MemoryRecorder

DIGEST = "d" * 64


def words_in_common(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return a similarity that needs no model: shared words over all words."""
    return [
        len(set(a.split()) & set(b.split())) / len(set((a + " " + b).split())) for a, b in pairs
    ]


def make_cases() -> tuple[GoldenCase, ...]:
    def case(number: int, tags: tuple[str, ...] = (), temperature: float = 0.0) -> GoldenCase:
        return GoldenCase(
            id=f"case-{number:02d}",
            messages=({"role": "user", "content": f"question {number}"},),
            params=Params(temperature=temperature, seed=1 if temperature else None, max_tokens=16),
            facts=("violet",) if number % 2 else (),
            checks=({"type": "min_words", "words": 3},),
            critical=number == 0,
            tags=tags,
        )

    return (
        *(case(n) for n in range(20)),
        *(case(n, temperature=0.8) for n in range(20, 26)),
        *(case(n, tags=("long_context",)) for n in range(26, 30)),
        case(30, tags=("alone",)),
    )


def run_of(
    cases: GoldenSet,
    model: FakeModel,
    run_id: str = "now",
    reference: Mapping[str, Answer] | None = None,
    reference_run_id: str | None = None,
) -> GoldenRun:
    answers = asyncio.run(
        execute(
            cases,
            model,
            MemoryRecorder(),
            concurrency=4,
            cache_salt=run_id,
            reference=reference,
        )
    )
    return GoldenRun(
        run_id=run_id,
        service="chat",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        golden_digest=DIGEST,
        model="m",
        endpoint="http://x",
        concurrency=4,
        contract=model.facts,
        answers=answers,
        reference_run_id=reference_run_id,
    )


@pytest.fixture(scope="session")
def cases() -> tuple[GoldenCase, ...]:
    return make_cases()


@pytest.fixture(scope="session")
def healthy_runs(cases: GoldenSet) -> tuple[GoldenRun, ...]:
    first = run_of(cases, FakeModel(), "first")
    reference = first_attempts(first.answers.values())
    return first, *(
        run_of(cases, FakeModel(), name, reference, "first") for name in ("second", "third")
    )


@pytest.fixture(scope="session")
def baseline(cases: GoldenSet, healthy_runs: Sequence[GoldenRun]) -> Baseline:
    return build_baseline(cases, healthy_runs, words_in_common, "2026-01-01T00:00:00+00:00")
