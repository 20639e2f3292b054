"""Facts, bands and the drift decision in one verdict."""

from __future__ import annotations

from typing import Any

import pytest

from quality_lib.golden.answer import Channel
from quality_lib.golden.comparison import BearsOn, Finding, Statistic
from quality_lib.golden.drift_record import DriftReason, DriftRecord
from quality_lib.golden.drift_verdict import judge_with_drift, left_bands, quality_of
from quality_lib.golden.verdict import Floors, GoldenVerdict
from quality_lib.records import Outcome, Summary, Tri
from tests.builders import (
    case_comparison,
    comparison,
    drift_record,
    finding,
    healthy_findings,
    startup_verdict,
)

EXACT = finding(
    statistic=Statistic.EXACT, bears_on=BearsOn.CHANGED, outcome=Outcome.FAILED, value=0.1
)
SCORES = finding(
    statistic=Statistic.LOGPROB_DELTA,
    channel=Channel.RAW_SCORED,
    bears_on=BearsOn.CHANGED,
    outcome=Outcome.FAILED,
    value=0.01,
    limit=0.0,
)
CONTRACT = finding(
    statistic=Statistic.CONTRACT,
    channel=Channel.CONTRACT,
    bears_on=BearsOn.CHANGED,
    outcome=Outcome.FAILED,
)
LOST = finding(outcome=Outcome.UNJUDGED, bears_on=BearsOn.CHANGED, statistic=Statistic.EXACT)


def says(changed: Tri, code: str, **more: Any) -> DriftRecord:
    return drift_record(changed=changed, reasons=(DriftReason(code, "why"),), **more)


def verdict(
    record: DriftRecord, *findings: Finding, startup: tuple[Any, ...] = (), **more: Any
) -> GoldenVerdict:
    return judge_with_drift(
        comparison(findings=(*healthy_findings(), *findings), **more), Floors(), startup, record
    )


@pytest.mark.parametrize(
    ("record", "findings", "changed", "code"),
    [
        (drift_record(), (), Tri.NO, None),
        (says(Tri.YES, "evidence"), (), Tri.YES, "drift_evidence"),
        (says(Tri.UNKNOWN, "no_data"), (), Tri.UNKNOWN, "drift_no_data"),
        # The scores' band is not asked where a calibration judges them.
        (drift_record(), (SCORES,), Tri.NO, None),
        # Texts are not calibrated: their band counts when two runs in a row leave it.
        (drift_record(bands=("exact_greedy",)), (EXACT,), Tri.UNKNOWN, "exact_greedy_once"),
        (
            drift_record(bands=("exact_greedy",), bands_before=("exact_greedy",)),
            (EXACT,),
            Tri.YES,
            "exact_greedy",
        ),
        (
            drift_record(bands=("exact_greedy",), bands_before=("exact_seeded",)),
            (EXACT,),
            Tri.UNKNOWN,
            "exact_greedy_once",
        ),
        # Other traffic in the batches: the decision is silent and does not make the run inconclusive.
        (says(Tri.UNKNOWN, "unsteady"), (), Tri.NO, "drift_unsteady"),
        (says(Tri.UNKNOWN, "more_traffic"), (), Tri.NO, "drift_more_traffic"),
        # Facts of the interface stay what they were.
        (drift_record(), (CONTRACT,), Tri.YES, "contract_contract"),
        # What could not be looked at is not known.
        (drift_record(), (LOST,), Tri.UNKNOWN, "unjudged_exact_greedy"),
    ],
)
def test_changed(
    record: DriftRecord, findings: tuple[Finding, ...], changed: Tri, code: str | None
) -> None:
    found = verdict(record, *findings)
    assert (found.summary, found.changed, found.degraded) == (Summary.HEALTHY, changed, Tri.NO)
    assert found.is_good is (changed is Tri.NO)
    assert {code} - {None} <= {reason.code for reason in found.reasons}
    assert "0.1 false alarms" in found.basis


def test_degraded_stays_what_it_is() -> None:
    bad = finding(outcome=Outcome.FAILED, value=0.5)
    found = verdict(drift_record(), bad)
    assert (found.summary, found.changed, found.degraded) == (Summary.DEGRADED, Tri.NO, Tri.YES)
    assert [r.code for r in found.reasons] == ["similarity_greedy"]


def test_scores_that_cannot_be_compared_count_at_once() -> None:
    broken = case_comparison("c1", logprob_delta=float("inf"))
    found = verdict(drift_record(), cases=(broken,))
    assert found.changed is Tri.YES
    assert "scores_missing" in {r.code for r in found.reasons}


def test_the_place_comes_from_the_decision() -> None:
    assert verdict(says(Tri.YES, "evidence", suspected="the sampler")).suspected == "the sampler"
    assert verdict(drift_record(suspected="the sampler")).suspected is None


@pytest.mark.parametrize(
    ("startup", "findings", "needs"),
    [
        ((), (), True),
        ((startup_verdict("vllm_version", Outcome.FAILED),), (), True),
        ((startup_verdict("args", Outcome.FAILED),), (), False),
        ((), (CONTRACT,), False),
    ],
)
def test_another_platform_alone_is_advice(
    startup: tuple[Any, ...], findings: tuple[Finding, ...], needs: bool
) -> None:
    found = verdict(says(Tri.YES, "other_platform", layer="L0"), *findings, startup=startup)
    assert (found.changed, found.needs_calibration) == (Tri.YES, needs)
    assert ("calibrate anew" in found.headline) is needs


@pytest.mark.parametrize(
    ("with_scores", "codes"),
    [
        (False, ("exact_greedy",)),
        (True, ("exact_greedy", "logprob_delta_raw_scored")),
    ],
)
def test_bands_beside_the_calibration(with_scores: bool, codes: tuple[str, ...]) -> None:
    found = comparison(findings=(EXACT, SCORES, CONTRACT, finding(outcome=Outcome.FAILED)))
    assert left_bands(found, with_scores) == codes


def test_severity_looks_at_the_scores_that_have_a_healthy_mean() -> None:
    found = quality_of(
        comparison(findings=(finding(value=0.9, healthy=0.95), finding(value=None), SCORES))
    )
    assert found.scores == {"similarity_greedy": 0.9}
    assert found.healthy == {"similarity_greedy": 0.95}
