"""One golden run of a service into a folder, and how it compares with a baseline."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.run_folder import (
    RUN,
    RunFolder,
    read_run,
    refuse_another_run,
)
from quality_lib.errors import DigestMismatch, OutsideFailure
from quality_lib.golden.answer import Answer, GoldenRun
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.comparison import Comparison, compare
from quality_lib.golden.execute import execute
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.ports import Progress
from quality_lib.golden.verdict import GoldenVerdict, judge
from quality_lib.jobs.clock import Clock, Note, utc_now
from quality_lib.jobs.deployment import Deployment, observe_deployment
from quality_lib.records import Verdict as CheckVerdict
from quality_lib.settings import ServiceSettings, Settings


@dataclass(frozen=True)
class Reference:
    """Stored answers that a run scores."""

    run_id: str
    answers: Mapping[str, Answer]

    @classmethod
    def of(cls, baseline: Baseline) -> Reference:
        """Return the answers that a baseline stores: those of its first run."""
        return cls(baseline.run_ids[0], baseline.references())


def run_golden(
    service_name: str,
    service: ServiceSettings,
    cases: GoldenSet,
    out: Path,
    *,
    reference: Reference | None = None,
    concurrency: int | None = None,
    deployment: Deployment | None = None,
    clock: Clock = utc_now,
    progress: Progress = lambda stage, done, total: None,
) -> GoldenRun:
    """Run the golden set into a folder; an unfinished run in it is resumed, a finished one returned.

    Raises:
        OutsideFailure: server or disk failed; what was answered is kept.
        DigestMismatch: the folder holds another run.
    """
    started = clock()
    wanted = {
        "run_id": f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        "started_at": started.isoformat(timespec="seconds"),
        "golden_digest": golden_digest(cases),
        "service": service_name,
        "model": service.model,
        "endpoint": service.endpoint,
        "reference_run_id": reference.run_id if reference else None,
        "deployment_key": deployment.key if deployment else "",
    }
    if (out / RUN).exists():
        finished = read_run(out)
        refuse_another_run(out, vars(finished), wanted)
        return finished
    concurrency = concurrency or service.golden.concurrency
    folder = RunFolder(out, wanted)
    plan = folder.plan

    async def work() -> tuple[Mapping[str, Any], dict[str, Answer], int | None]:
        async with wiring.model_client(service) as client:
            contract = await client.contract()
            answers = await execute(
                cases,
                client,
                folder,
                concurrency=concurrency,
                cache_salt=plan["run_id"],
                reference=reference.answers if reference else None,
                progress=progress,
            )
            return contract, answers, client.take_running()

    try:
        contract, answers, running = asyncio.run(work())
        run = GoldenRun(
            run_id=plan["run_id"],
            service=service_name,
            started_at=plan["started_at"],
            duration_s=round((clock() - started).total_seconds(), 1),
            golden_digest=plan["golden_digest"],
            model=service.model,
            endpoint=service.endpoint,
            concurrency=concurrency,
            contract=contract,
            answers=answers,
            reference_run_id=plan["reference_run_id"],
            environment=deployment.environment if deployment else None,
            deployment_key=plan["deployment_key"],
            running=running,
        )
        folder.finish(run)
    finally:
        folder.close()
    return run


def compare_run(
    settings: Settings,
    service: ServiceSettings,
    run: GoldenRun,
    baseline: Baseline,
    startup: tuple[CheckVerdict, ...] = (),
) -> tuple[Comparison, GoldenVerdict]:
    """Hold a run against a baseline and judge it."""
    if baseline.similarity_model != settings.embedding_model:
        raise DigestMismatch(
            f"the baseline was made with the embedding model '{baseline.similarity_model}', "
            f"configured is '{settings.embedding_model}'",
            field="embedding_model",
            fix="set it back, or build a new baseline",
        )
    cases = load_cases(service.golden.cases)
    comparison = compare(
        cases,
        run,
        baseline,
        wiring.similarity(settings),
        wiring.limits(service.thresholds),
        golden_digest(cases),
    )
    return comparison, judge(comparison, wiring.floors(service.thresholds), startup)


def refuse_redeployment(service: ServiceSettings, before: Deployment, note: Note) -> None:
    """Look again after the run: what was asked must be what is judged."""
    if observe_deployment(service, note).key != before.key:
        raise OutsideFailure(
            "the service was redeployed while it was asked; run the same command again"
        )
