"""Golden results and their parts with sensible defaults: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quality_lib.drift.severity import Severity
from quality_lib.golden.answer import Channel
from quality_lib.golden.comparison import BearsOn, CaseComparison, Comparison, Finding, Statistic
from quality_lib.golden.drift_record import DriftReason, DriftRecord, DriftStep
from quality_lib.golden.result import SCHEMA, GoldenResult, TrendPoint
from quality_lib.golden.verdict import GoldenVerdict, Reason
from quality_lib.records import Outcome, Summary, Tri, Verdict

STARTED_AT = "2026-03-14T09:00:00+00:00"
RUN_ID = "20260314-090000-chat"


def finding(**changes: Any) -> Finding:
    """Return a passed similarity finding of the greedy channel."""
    return Finding(**{
        "statistic": Statistic.SIMILARITY,
        "channel": Channel.GREEDY,
        "bears_on": BearsOn.DEGRADED,
        "outcome": Outcome.PASSED,
        "sentence": "similarity (greedy): 0.994 over 80 cases, healthy 0.996, band from 0.976",
        "value": 0.994,
        "healthy": 0.996,
        "limit": 0.976,
        "cases": 80,
        **changes,
    })


def healthy_findings() -> tuple[Finding, ...]:
    """Return one finding of each kind, all passed; the scored channels are deterministic."""
    scored: dict[str, Any] = {
        "statistic": Statistic.LOGPROB_DELTA,
        "bears_on": BearsOn.CHANGED,
        "value": 0.0,
        "healthy": 0.0,
        "limit": 0.0,
    }
    exact: dict[str, Any] = {
        "statistic": Statistic.EXACT,
        "bears_on": BearsOn.CHANGED,
        "value": 0.97,
        "healthy": 0.981,
        "limit": 0.831,
        "sentence": "exact: 0.970, healthy 0.981",
    }
    return (
        finding(
            statistic=Statistic.CONTRACT,
            channel=Channel.CONTRACT,
            bears_on=BearsOn.CHANGED,
            sentence="all 9 interface facts and all prompt tokens are the same",
            value=0.0,
            healthy=0.0,
            limit=0.0,
            cases=124,
        ),
        finding(**scored, channel=Channel.CHAT_SCORED, cases=96, sentence="chat scored: the same"),
        finding(**scored, channel=Channel.RAW_SCORED, cases=96, sentence="raw scored: the same"),
        finding(),
        finding(channel=Channel.SEEDED, value=0.95, healthy=0.957, limit=0.921, cases=24),
        finding(channel=Channel.LONG_CONTEXT, value=1.0, healthy=0.998, limit=0.978, cases=20),
        finding(**exact),
        finding(
            statistic=Statistic.FACTS,
            channel=None,
            value=0.71,
            healthy=0.716,
            limit=0.68,
            cases=52,
            sentence="facts: 0.710 over 52 cases",
        ),
        finding(
            statistic=Statistic.CHECKS,
            channel=None,
            value=0.642,
            healthy=0.64,
            limit=0.61,
            cases=61,
            sentence="checks: 0.642 over 61 cases",
        ),
    )


def case_comparison(case_id: str = "capital-fr", **changes: Any) -> CaseComparison:
    """Return a case that answers as its baseline does."""
    return CaseComparison(**{
        "case_id": case_id,
        "channel": Channel.GREEDY,
        "similarity": 1.0,
        "exact": 1.0,
        "facts": 1.0,
        "healthy_facts": 1.0,
        "checks": 1.0,
        "healthy_checks": 1.0,
        "failed_checks": (),
        "logprob_delta": 0.0,
        "is_critical": False,
        "critical_failed": False,
        "missing": None,
        "baseline_text": "The capital of France is Paris.",
        "current_text": "The capital of France is Paris.",
        "prompt": "What is the capital of France?",
        **changes,
    })


def comparison(**changes: Any) -> Comparison:
    """Return a comparison in which nothing moved."""
    return Comparison(**{
        "run_id": RUN_ID,
        "service": "chat",
        "started_at": STARTED_AT,
        "golden_digest": "5f0c1d2e" * 8,
        "baseline_run_ids": ("baseline-1", "baseline-2", "baseline-3"),
        "probes": 632,
        "judged": 632,
        "lost": 0,
        "mean_similarity": 0.987,
        "findings": healthy_findings(),
        "cases": (case_comparison(),),
        **changes,
    })


def reason(**changes: Any) -> Reason:
    """Return one sentence of a verdict."""
    return Reason(**{
        "code": "similarity_below_failed_floor",
        "sentence": "mean similarity 0.212 is below 0.8",
        "bears_on": BearsOn.DEGRADED,
        **changes,
    })


def golden_verdict(summary: Summary = Summary.HEALTHY, **changes: Any) -> GoldenVerdict:
    """Return a verdict whose two questions are answered as the summary suggests."""
    known = {Summary.HEALTHY: Tri.NO, Summary.INCONCLUSIVE: Tri.UNKNOWN}.get(summary, Tri.YES)
    return GoldenVerdict(**{
        "summary": summary,
        "changed": known,
        "degraded": known,
        "reasons": (),
        "worst_cases": (),
        "suspected": None,
        **changes,
    })


def startup_verdict(
    field: str = "dtype", outcome: Outcome = Outcome.PASSED, expected: Any = "bfloat16", **more: Any
) -> Verdict:
    """Return one fact of the start-up check; ``sentence`` and ``found`` may be given."""
    found = more.get("found", expected)
    sentence = more.get("sentence", f"{field}: as recorded")
    evidence = {"field": field, "expected": expected, "found": found}
    return Verdict(outcome, f"startup_{field}", sentence, evidence)


def golden_result(**changes: Any) -> GoldenResult:
    """Return a healthy golden check of the service ``chat``."""
    return GoldenResult(**{
        "schema": SCHEMA,
        "service": "chat",
        "endpoint": "http://127.0.0.1:8100",
        "model": "smollm2-135m-instruct",
        "run_id": RUN_ID,
        "started_at": STARTED_AT,
        "duration_s": 96.4,
        "snapshot_id": "a3f19c07be" * 6 + "a3f1",
        "deployment_key": "d41d8cd98f00b204",
        "is_snapshot_deployment": True,
        "was_redeployed": False,
        "verdict": golden_verdict(),
        "comparison": comparison(),
        "startup": (
            startup_verdict("vllm_version", expected="0.32.0"),
            startup_verdict(),
            startup_verdict("max_model_len", expected=2048),
        ),
        "environment": {"vllm": "0.32.0", "torch": "2.13.0", "device": {"kind": "cpu", "cores": 2}},
        "tokens": {"generated": 18421, "scored": 36110},
        **changes,
    })


def drift_record(**changes: Any) -> DriftRecord:
    """Return the decision of a calibrated check in which nothing moved."""
    return DriftRecord(**{
        "key": "c0ffee00c0ffee00",
        "changed": Tri.NO,
        "pages": False,
        "severity": Severity.SAME,
        "layer": "none",
        "reasons": (DriftReason("no_evidence", "this check's evidence is 0.4"),),
        "suspected": None,
        "e_value": 0.4,
        "level": 0.7,
        "alarm_level": 175200.0,
        "is_watched": False,
        "false_alarms_per_year": 0.1,
        "endpoints": 1,
        "calibrated_checks": 240,
        "calibrated_starts": 4,
        "is_deterministic": False,
        "steps": (DriftStep(RUN_ID, 1, "warm", Tri.NO, "none", 0.4),),
        "state": "{}",
        "state_from": "check run-1",
        **changes,
    })


def trend_point(hours_ago: float = 1.0, **changes: Any) -> TrendPoint:
    """Return an earlier healthy check."""
    moment = datetime.fromisoformat(STARTED_AT) - timedelta(hours=hours_ago)
    return TrendPoint(**{
        "run_id": f"run-{hours_ago:g}",
        "started_at": moment.astimezone(UTC).isoformat(),
        "summary": Summary.HEALTHY,
        "changed": Tri.NO,
        "mean_similarity": 0.985,
        "raw_logprob_delta": 0.0,
        "deployment_key": "d41d8cd98f00b204",
        "is_snapshot_deployment": True,
        **changes,
    })


def trend(runs: int = 24, **changes: Any) -> Sequence[TrendPoint]:
    """Return hourly earlier checks, the oldest first, with a little healthy noise."""
    return [
        trend_point(hours_ago=h, mean_similarity=0.985 + 0.004 * ((h * 7) % 5 - 2) / 2, **changes)
        for h in range(runs, 0, -1)
    ]
