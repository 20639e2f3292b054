"""Ask an instance of a rollback: the whole golden set in staging, a few core cases in production."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.files.baseline import BASELINE, read_baseline
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.run_folder import write_json
from quality_lib.drift.band import falls_of
from quality_lib.errors import NoData, OutsideFailure
from quality_lib.golden.answer import Answer, Fault, Probe
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenCase
from quality_lib.golden.comparison import Statistic
from quality_lib.golden.observation import (
    CaseObservation,
    attempts_of,
    observe,
    similarity_table,
    spoken,
)
from quality_lib.golden.plan import decode_channel
from quality_lib.golden.ports import Progress, Similarity
from quality_lib.jobs.golden import baseline_name, check_service
from quality_lib.jobs.rollback_parts import Examination
from quality_lib.records import Summary, Tri
from quality_lib.rollout.journal import Target
from quality_lib.settings import ServiceSettings, Settings

CORE_TAG = "core"
FALSE_ALARM = 0.01
"""Chance with which health alone lets more cases fall in one look; a target is refused after two."""

AT_ONCE = 4
"""Core cases under way together: an instance without weight has nothing else to do."""


@dataclass(frozen=True)
class GoldenExaminer:
    """``Examiner`` by the service's golden set and the target's own baseline."""

    settings: Settings
    service_name: str
    note: Callable[[str], None]
    progress: Progress = lambda stage, done, total: None

    def full(
        self, target: Target, endpoint: str, out: Path, hear: Callable[[], None]
    ) -> Examination:
        """Ask the whole golden set; only healthy and unchanged is good enough to go back to."""
        service = _asked_at(self._service, target, endpoint)

        def progress(stage: str, done: int, total: int) -> None:
            hear()
            self.progress(stage, done, total)

        services = {**self.settings.services, self.service_name: service}
        result = check_service(
            self.settings.model_copy(update={"services": services}),
            self.service_name,
            out,
            snapshot=target.snapshot_id,
            progress=progress,
            note=self.note,
        )
        verdict = result.verdict
        state = Tri.YES if verdict.is_good else Tri.NO
        if (verdict.summary is Summary.INCONCLUSIVE and verdict.changed is not Tri.YES) or (
            verdict.summary is Summary.HEALTHY and verdict.changed is Tri.UNKNOWN
        ):
            state = Tri.UNKNOWN
        detail = {
            "run_dir": str(out),
            "summary": verdict.summary.value,
            "changed": verdict.changed.value,
            "mean_similarity": result.comparison.mean_similarity,
            "reasons": [reason.sentence for reason in verdict.reasons],
            "worst_cases": list(verdict.worst_cases),
            "duration_s": result.duration_s,
        }
        return Examination(state, verdict.headline, detail)

    def core(
        self, target: Target, endpoint: str, headers: Mapping[str, str], out: Path, cases: int
    ) -> Examination:
        """Ask so many core cases, the critical ones first, each once; again where that looks bad."""
        baseline = self._baseline(target, out.parent)
        chosen = core_cases(load_cases(self._service.golden.cases), baseline, cases)
        if not chosen:
            return Examination(Tri.UNKNOWN, "the golden set and the baseline share no case")
        service = _asked_at(self._service, target, endpoint)

        def look() -> Examination:
            return judge_core(
                chosen,
                ask_once(service, headers, chosen),
                baseline,
                wiring.similarity(self.settings),
                service.thresholds.similarity_failed,
            )

        found = confirmed(look)
        _keep(out, found)
        return found

    @property
    def _service(self) -> ServiceSettings:
        return self.settings.service(self.service_name)

    def _baseline(self, target: Target, folder: Path) -> Baseline:
        """Return the target's baseline; once fetched, a dead store does not matter."""
        file = folder / f"baseline-{target.snapshot_id[:12]}.json"
        if not file.exists():
            store = wiring.snapshot_store(self.settings)
            stored = store.get(self.service_name, target.snapshot_id)
            if stored.manifest.golden is None:
                raise NoData(f"snapshot {target.snapshot_id[:12]} holds no {BASELINE}")
            name = baseline_name(stored.manifest.golden.baseline_uri)
            part = store.fetch_file(stored, name, file.with_suffix(".part"))
            part.replace(file)
        return read_baseline(file)


def ask_once(
    service: ServiceSettings, headers: Mapping[str, str], cases: Sequence[GoldenCase]
) -> dict[str, Answer]:
    """Let an instance answer each case once; return the answers by probe key."""

    async def everything() -> list[Answer]:
        slots = asyncio.Semaphore(AT_ONCE)
        salt = f"core-{secrets.token_hex(4)}"
        async with wiring.model_client(service, headers) as client:

            async def one(case: GoldenCase) -> Answer:
                async with slots:
                    return await client.decode(case, Probe(case.id, decode_channel(case), 1), salt)

            return await asyncio.gather(*(one(case) for case in cases))

    return {answer.probe.key: answer for answer in asyncio.run(everything())}


def confirmed(look: Callable[[], Examination]) -> Examination:
    """Look once, and where that is bad once more; only what is bad twice is bad.

    Answers are asked once beside the users' traffic, and a rollback looks half a dozen times: a single
    look would take a healthy target back every so often (``bench/core_checks.py`` counts both).
    """
    first = look()
    if first.state is not Tri.NO:
        return first
    second = look()
    told = f"{second.headline}; a look before it: {first.headline}"
    return Examination(second.state, told, {**second.detail, "look_before": dict(first.detail)})


def core_cases(
    cases: Sequence[GoldenCase], baseline: Baseline, count: int
) -> tuple[GoldenCase, ...]:
    """Return so many cases of the baseline, each asked once: critical, then core, then the others.

    Among equals the steady ones come first: what health says in one way alone speaks when asked once.
    """
    known = [case for case in cases if case.id in baseline.cases]
    ranked = sorted(
        known,
        key=lambda case: (
            not case.critical,
            CORE_TAG not in case.tags,
            not baseline.cases[case.id].is_steady,
        ),
    )
    return tuple(replace(case, repeats=1) for case in ranked[:count])


def judge_core(
    cases: Sequence[GoldenCase],
    answers: Mapping[str, Answer],
    baseline: Baseline,
    similarity: Similarity,
    similarity_failed: float,
) -> Examination:
    """Hold single answers against the baseline; too few to say whether anything *changed*.

    Bad: a case is refused, a critical one fails a check that it always passed, or the mean
    similarity is below the floor while more cases are lower than ever in health than chance lets fall
    (all of them where so few are asked). Unknown: more than a tenth got lost on the way.
    """
    table = similarity_table(
        (
            (spoken(answer), baseline.cases[case.id].texts)
            for case in cases
            for answer in attempts_of(case, answers)
            if answer is not None and answer.is_judgeable
        ),
        similarity,
    )
    seen = {c.id: observe(c, answers, baseline.cases[c.id].texts, table) for c in cases}
    lost = [a.probe.case_id for a in answers.values() if a.fault is Fault.TRANSPORT]
    refused = [a.probe.case_id for a in answers.values() if a.fault is Fault.REFUSED]
    critical = [
        case.id
        for case in cases
        if case.critical and _has_fallen(seen[case.id], baseline.cases[case.id].passes_always)
    ]
    pairs = [
        (o.similarity, baseline.cases[case_id].healthy(Statistic.SIMILARITY) or ())
        for case_id, o in seen.items()
        if o.similarity is not None
    ]
    mean = sum(value for value, _ in pairs) / len(pairs) if pairs else None
    fell, chance = falls_of(pairs, FALSE_ALARM)
    same = sum(o.exact == 1.0 for o in seen.values())
    detail: dict[str, Any] = {
        "cases": len(cases),
        "equal": same,
        "mean_similarity": mean,
        "lower_than_ever": fell,
        "lower_by_chance": chance,
        "lost": lost,
        "refused": refused,
        "critical_failed": critical,
    }
    told = f"{same} of {len(cases)} core cases equal the baseline" + (
        f", mean similarity {mean:.3f}" if mean is not None else ""
    )
    if fell:
        told += f", {fell} lower than ever in health"
    if refused:
        return Examination(Tri.NO, f"{told}; refused: {', '.join(refused)}", detail)
    if critical:
        return Examination(Tri.NO, f"{told}; critical cases fail: {', '.join(critical)}", detail)
    if mean is None or len(lost) > len(cases) / 10:
        return Examination(Tri.UNKNOWN, f"{told}; {len(lost)} requests got lost", detail)
    if mean < similarity_failed and fell > min(chance, len(pairs) - 1):
        return Examination(Tri.NO, f"{told}: the mean is below {similarity_failed}", detail)
    return Examination(Tri.YES, told, detail)


def _has_fallen(seen: CaseObservation, passes_always: bool) -> bool:
    return passes_always and seen.checks is not None and seen.checks < 1.0


def _asked_at(service: ServiceSettings, target: Target, endpoint: str) -> ServiceSettings:
    return service.model_copy(
        update={"endpoint": endpoint.rstrip("/"), "weights": Path(target.model_path)}
    )


def _keep(out: Path, found: Examination) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(
            out / "core.json",
            {"state": found.state.value, "headline": found.headline, **found.detail},
        )
    except OSError as error:
        raise OutsideFailure(f"{out} cannot be written: {error}") from error
