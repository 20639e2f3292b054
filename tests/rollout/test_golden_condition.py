"""Condition A: rows of bad golden runs, and everything that looks like one and is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality_lib.golden.result import TrendPoint
from quality_lib.records import Summary, Tri
from quality_lib.rollout.golden_condition import judge_golden
from quality_lib.rollout.limits import TriggerLimits
from tests.rollout.evidence_builders import ago, evidence, run

Y, N, U = Tri.YES, Tri.NO, Tri.UNKNOWN
BAD, GOOD = 0.4, 0.98


def unjudged(minutes: float) -> TrendPoint:
    return run(minutes, None, summary=Summary.INCONCLUSIVE, changed=Tri.UNKNOWN)


def judged(*runs: TrendPoint, limits: TriggerLimits | None = None, **changes: Any) -> Any:
    return judge_golden(evidence(golden=runs, **changes), limits or TriggerLimits())


@pytest.mark.parametrize(
    ("runs", "state", "note"),
    [
        pytest.param([run(5, BAD), run(65, BAD)], Y, None, id="two bad in a row"),
        pytest.param([run(5, 0.79999), run(65, 0.5)], Y, None, id="just below the limit"),
        pytest.param([run(5, 0.80), run(65, 0.80)], N, None, id="at the limit is not below it"),
        pytest.param([run(5, GOOD), run(65, BAD)], N, None, id="one bad run, then good"),
        pytest.param([run(5, BAD), run(65, GOOD)], N, None, id="good, then one bad run"),
        pytest.param([run(5, BAD)], U, None, id="the first bad run of all"),
        pytest.param([run(5, GOOD)], N, None, id="one good run is enough for no"),
        pytest.param([], U, "no_golden", id="nothing"),
        pytest.param(
            [run(5, GOOD, summary=Summary.FAILED), run(65, GOOD, summary=Summary.FAILED)],
            Y,
            None,
            id="failed for another reason",
        ),
        pytest.param(
            [run(5, 0.83, summary=Summary.DEGRADED), run(65, 0.83, summary=Summary.DEGRADED)],
            N,
            None,
            id="degraded alerts, and is not bad enough",
        ),
        pytest.param(
            [run(5, GOOD, changed=Y), run(65, GOOD, changed=Y)],
            N,
            "changed_only",
            id="changed alone never triggers, and is said",
        ),
        pytest.param(
            [run(5, None, summary=Summary.FAILED), run(65, BAD)],
            Y,
            None,
            id="failed, no similarity",
        ),
        pytest.param([run(5, float("nan"), summary=Summary.HEALTHY)], U, "inconclusive", id="NaN"),
        pytest.param([unjudged(5), run(65, BAD), run(125, BAD)], Y, None, id="unjudged is skipped"),
        pytest.param([run(5, BAD), unjudged(65), run(125, BAD)], Y, None, id="also in the middle"),
        pytest.param([unjudged(5), run(65, GOOD)], N, None, id="unjudged, before it good"),
        pytest.param([unjudged(5), unjudged(65)], U, "inconclusive", id="only unjudged"),
        pytest.param([run(160, BAD), run(220, BAD)], U, "stale", id="too old for now"),
        pytest.param(
            [unjudged(5), run(160, BAD), run(220, BAD)], U, "stale", id="no young verdict"
        ),
        pytest.param([run(150, BAD), run(210, BAD)], Y, None, id="one run late is allowed"),
        pytest.param([run(5, BAD), run(156, BAD)], U, "gap", id="a hole: not in a row"),
        pytest.param([run(5, BAD), run(155, BAD)], Y, None, id="one run missing is allowed"),
        pytest.param(
            [run(5, BAD), run(65, BAD, deployment_key="before")],
            U,
            None,
            id="one of the one before",
        ),
        pytest.param(
            [run(5, BAD, deployment_key="before"), run(65, BAD, deployment_key="before")],
            U,
            "no_golden",
            id="both of the deployment before",
        ),
        pytest.param(
            [run(5, BAD, deployment_key=""), run(65, BAD, deployment_key="")],
            U,
            "no_golden",
            id="of nobody knows what",
        ),
        pytest.param([run(-1, BAD), run(59, BAD)], Y, None, id="a clock a minute ahead"),
        pytest.param([run(-30, BAD), run(-60, BAD)], U, "clock", id="clocks disagree"),
        pytest.param([run(-30, BAD), run(5, GOOD)], N, None, id="a run of the future is left out"),
        pytest.param(
            [replace(run(5, BAD), started_at="yesterday"), run(65, BAD)], U, None, id="no time"
        ),
        pytest.param([run(5, BAD), run(5, BAD), run(5, BAD)], U, None, id="one run three times"),
        pytest.param([run(65, BAD), run(5, GOOD)], N, None, id="in the wrong order"),
        pytest.param(
            [
                replace(run(5, BAD), started_at=ago(5).replace(tzinfo=None).isoformat()),
                run(65, BAD),
            ],
            Y,
            None,
            id="a time without a zone is UTC",
        ),
    ],
)
def test_rows_of_runs(runs: list[TrendPoint], state: Tri, note: str | None) -> None:
    found = judged(*runs)
    assert (found.state, [n.code for n in found.notes]) == (state, [note] if note else [])
    assert len(found.inputs) == len({one.run_id for one in runs})


def test_runs_from_before_the_last_change_do_not_count() -> None:
    runs = [run(5, BAD), run(65, BAD), run(125, BAD)]
    assert judged(*runs, last_change_at=ago(65)).state is Y
    assert judged(*runs, last_change_at=ago(64)).state is U
    found = judged(*runs, last_change_at=ago(4))
    assert found.state is U
    assert "before the last change" in found.inputs[0]["why_not"]


def test_without_a_known_deployment_nothing_counts() -> None:
    found = judged(run(5, BAD), run(65, BAD), deployment_key=None)
    assert found.state is U
    assert "nobody can tell what serves" in found.inputs[0]["why_not"]


@pytest.mark.parametrize(("asked", "state"), [(1, Y), (2, Y), (3, U)])
def test_how_many_runs_are_asked(asked: int, state: Tri) -> None:
    found = judged(run(5, BAD), run(65, BAD), limits=TriggerLimits(golden_runs=asked))
    assert found.state is state


def test_every_input_is_kept_with_what_it_says() -> None:
    found = judged(run(5, BAD), unjudged(35), run(65, BAD), run(125, BAD, deployment_key="before"))
    assert [(one["name"], one["counted"]) for one in found.inputs] == [
        ("run-5", True),
        ("run-35", False),
        ("run-65", True),
        ("run-125", False),
    ]
    first, second, _, last = found.inputs
    assert (first["value"], first["limit"]) == ("similarity 0.400, failed", "below 0.8 or failed")
    assert (first["state"], first["age_s"], first["mean_similarity"]) == ("yes", 300.0, BAD)
    assert second["why_not"] == "has no verdict"
    assert last["why_not"] == "is of another deployment (before)"


@given(
    st.lists(
        st.builds(
            lambda minutes, similarity, key: run(minutes, similarity, deployment_key=key),
            st.integers(-400, 400),
            st.sampled_from([BAD, GOOD, None]),
            st.sampled_from(["d41d8cd98f00b204", "before", ""]),
        ),
        max_size=6,
    ),
    st.randoms(),
)
def test_yes_needs_two_counted_bad_runs_whatever_comes_in(
    runs: list[TrendPoint], random: Any
) -> None:
    runs = list({one.run_id: one for one in runs}.values())
    found = judged(*runs)
    counted = [one for one in found.inputs if one["counted"]]
    if found.state is Y:
        assert [one["state"] for one in counted] == ["yes", "yes"]
    if found.state is N:
        assert any(one["state"] == "no" for one in counted)
    shuffled = list(runs)
    random.shuffle(shuffled)
    assert judged(*shuffled) == found
