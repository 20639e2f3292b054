"""The hourly check of a service: baseline, golden run, verdict, report, and its way into MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib import wiring
from quality_lib.adapters.files.baseline import BASELINE, read_baseline
from quality_lib.adapters.files.cases import load_cases
from quality_lib.adapters.files.readings import RECHECKS
from quality_lib.adapters.files.result import RESULT, read_result, write_result
from quality_lib.adapters.files.run_folder import (
    RUN,
    TABLE,
    write_json,
)
from quality_lib.adapters.pages.report_html import render_report
from quality_lib.errors import BadInput, NoData, OutsideFailure
from quality_lib.golden.answer import DECODE_CHANNELS, SCORED_CHANNELS, GoldenRun
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.comparison import Comparison
from quality_lib.golden.drift_record import DriftRecord
from quality_lib.golden.drift_verdict import judge_with_drift
from quality_lib.golden.parse import golden_digest
from quality_lib.golden.ports import Progress
from quality_lib.golden.result import SCHEMA, GoldenResult, TrendPoint
from quality_lib.golden.verdict import GoldenVerdict
from quality_lib.jobs.clock import Clock, Note, silent, utc_now
from quality_lib.jobs.deployment import Deployment, observe_deployment
from quality_lib.jobs.drift_check import DriftCheck, KnownHealth, decide_drift, fetch_health
from quality_lib.jobs.golden_run import Reference, compare_run, refuse_redeployment, run_golden
from quality_lib.records import Outcome
from quality_lib.records import Verdict as CheckVerdict
from quality_lib.settings import Settings
from quality_lib.snapshots.manifest import was_redeployed
from quality_lib.snapshots.ports import LAST_HEALTHY, SERVING, Health, StoredSnapshot
from quality_lib.snapshots.startup_check import check_startup

REPORT = "report.html"


def check_service(
    settings: Settings,
    service_name: str,
    out: Path,
    *,
    snapshot: str = SERVING,
    clock: Clock = utc_now,
    progress: Progress = lambda stage, done, total: None,
    note: Note = silent,
) -> GoldenResult:
    """Do the hourly check: start-up facts, golden run, comparison, verdict, report; all in ``out``.

    Doing it again in the same folder resumes, or returns the result that is there.

    Raises:
        NoData: the service has no snapshot to be held against.
        OutsideFailure: server, MLflow or disk failed; finished parts are kept.
    """
    if (out / RESULT).exists():
        done = read_result(out)
        if not (out / REPORT).exists():
            write_report(settings, out, done, note)
        return done
    service = settings.service(service_name)
    note("fetching the snapshot's baseline")
    stored, baseline, health = _fetch_baseline(settings, service_name, snapshot, out, note)
    note("looking at the server")
    deployment = observe_deployment(service, note)
    startup = check_startup(stored.manifest, deployment.facts)
    cases = load_cases(service.golden.cases)
    if golden_digest(cases) != baseline.golden_digest:
        raise BadInput(
            f"the configured golden set ({golden_digest(cases)[:12]}) is not the one the snapshot's "
            f"baseline was made with ({baseline.golden_digest[:12]})",
            file=service.golden.cases,
            fix="register the service again, so that it gets a baseline of the new set",
        )
    run = run_golden(
        service_name,
        service,
        cases,
        out,
        reference=Reference.of(baseline),
        deployment=deployment,
        clock=clock,
        progress=progress,
    )
    if run.deployment_key != deployment.key:
        (out / RUN).unlink()
        raise OutsideFailure(
            "the service was redeployed since this run was finished; run the same command again"
        )
    refuse_redeployment(service, deployment, note)
    note("comparing with the baseline")
    comparison, verdict = compare_run(settings, service, run, baseline, startup)
    drift = None
    if health is not None:
        note("deciding whether it has changed")
        drift = decide_drift(
            DriftCheck(
                service,
                cases,
                baseline,
                health,
                run,
                deployment,
                comparison,
                _frozen(stored, deployment, startup),
                clock,
                out / RECHECKS,
            ),
            note,
        )
        verdict = judge_with_drift(comparison, wiring.floors(service.thresholds), startup, drift)
    result = _result(run, stored, deployment, comparison, verdict, startup, drift)
    write_result(out, result)
    note("writing the report")
    write_report(settings, out, result, note)
    return result


def _fetch_baseline(
    settings: Settings, name: str, snapshot: str, out: Path, note: Note
) -> tuple[StoredSnapshot, Baseline, KnownHealth | None]:
    store = wiring.snapshot_store(settings)
    if not store.list(name):
        raise NoData(
            f"service '{name}' has no snapshot yet, so there is nothing to hold it against. "
            f"Register one: trigger the DAG register_snapshot, or 'quality snapshot create "
            f"--service {name}'"
        )
    stored = store.get(name, snapshot)
    if stored.manifest.golden is None:
        raise NoData(f"snapshot {stored.snapshot_id[:12]} of '{name}' holds no baseline")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutsideFailure(f"{out} cannot be written: {error}") from error
    path = store.fetch_file(
        stored, baseline_name(stored.manifest.golden.baseline_uri), out / BASELINE
    )
    baseline = read_baseline(path)
    return stored, baseline, fetch_health(settings, name, store, stored, out, note)


def baseline_name(uri: str) -> str:
    """Return the name of the baseline file within the snapshot's files."""
    return uri if uri.endswith(".json") else f"{uri.rstrip('/')}/{BASELINE}".lstrip("/")


def _result(
    run: GoldenRun,
    stored: StoredSnapshot,
    deployment: Deployment,
    comparison: Comparison,
    verdict: GoldenVerdict,
    startup: tuple[CheckVerdict, ...],
    drift: DriftRecord | None,
) -> GoldenResult:
    answers = run.answers.values()
    return GoldenResult(
        schema=SCHEMA,
        service=run.service,
        endpoint=run.endpoint,
        model=run.model,
        run_id=run.run_id,
        started_at=run.started_at,
        duration_s=run.duration_s,
        snapshot_id=stored.snapshot_id,
        deployment_key=deployment.key,
        is_snapshot_deployment=deployment.key == stored.entry.deployment_key,
        was_redeployed=_was_redeployed(stored, deployment),
        verdict=verdict,
        comparison=comparison,
        startup=startup,
        environment=deployment.environment,
        tokens={
            "generated": sum(
                len(a.token_ids) for a in answers if a.probe.channel in DECODE_CHANNELS
            ),
            "scored": sum(len(a.token_ids) for a in answers if a.probe.channel in SCORED_CHANNELS),
        },
        drift=drift,
    )


def _was_redeployed(stored: StoredSnapshot, deployment: Deployment) -> bool:
    return deployment.key != stored.entry.deployment_key and was_redeployed(
        stored.manifest, deployment.weights_uri, deployment.args_sha256, deployment.image
    )


def _frozen(
    stored: StoredSnapshot, deployment: Deployment, startup: tuple[CheckVerdict, ...]
) -> str | None:
    """Return why no evidence may be gathered: what serves was meant to be something else.

    A snapshot without recorded arguments looks redeployed to every server; only what is seen to
    differ counts.
    """
    is_other = deployment.weights_uri != stored.manifest.weights.uri or any(
        v.outcome is Outcome.FAILED and v.reason != "startup_vllm_version" for v in startup
    )
    if is_other and _was_redeployed(stored, deployment):
        return "another deployment than the snapshot's serves, and no evidence is gathered of it"
    return None


def write_report(settings: Settings, out: Path, result: GoldenResult, note: Note = silent) -> Path:
    """Write the HTML report; a silent MLflow costs the trend, not the report."""
    history: tuple[TrendPoint, ...] = ()
    try:
        history = wiring.result_store(settings).history(result.service)
    except OutsideFailure as error:
        note(f"the report has no trend: {error}")
    floors = wiring.floors(settings.service(result.service).thresholds)
    path = out / REPORT
    try:
        path.write_text(render_report(result, history, floors), encoding="utf-8")
    except OSError as error:
        raise OutsideFailure(f"{path} cannot be written: {error}") from error
    return path


def publish(settings: Settings, out: Path) -> Mapping[str, Any]:
    """Store a finished check in MLflow; doing it twice stores it once.

    Raises:
        OutsideFailure: MLflow does not answer; the folder stays as it is.
    """
    result = read_result(out)
    names = (RESULT, RUN, TABLE, RECHECKS, REPORT)
    files = {name: out / name for name in names if (out / name).exists()}
    published = wiring.result_store(settings).publish(result, files)
    summary = {
        "run_id": published.run_id,
        "mlflow_run_id": published.mlflow_run_id,
        "run_url": published.run_url,
        "report_url": published.report_url,
    }
    write_json(out / "published.json", summary)
    if result.verdict.is_good and result.is_snapshot_deployment:
        _mark_healthy(settings, result)
    return summary


def _mark_healthy(settings: Settings, result: GoldenResult) -> None:
    """Tell the store that this snapshot has just been seen healthy: a rollback may go back to it."""
    store = wiring.snapshot_store(settings)
    entry = store.get(result.service, result.snapshot_id).entry
    reason = f"golden check {result.run_id} was healthy and unchanged"
    if entry.health is not Health.HEALTHY:
        store.set_health(result.service, result.snapshot_id, Health.HEALTHY, reason, "golden check")
    if LAST_HEALTHY not in entry.aliases:
        store.set_alias(result.service, LAST_HEALTHY, result.snapshot_id, reason, "golden check")
