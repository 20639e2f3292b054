"""The choice of the sentinel set: coverage, budgets, restless cases, recorded faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from quality_lib.errors import NoData
from quality_lib.golden.answer import Channel
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenCase, GoldenSet
from quality_lib.golden.recorded_faults import FaultZ
from quality_lib.golden.sentinel import choose_sentinel


def tagged(cases: GoldenSet, tags: Mapping[str, tuple[str, ...]]) -> list[GoldenCase]:
    return [dataclasses.replace(c, tags=(*c.tags, *tags.get(c.id, ()))) for c in cases]


def with_deltas(baseline: Baseline, case_id: str, *deltas: float) -> Baseline:
    """Make one case restless in health."""
    case = baseline.cases[case_id]
    scored = {c: dataclasses.replace(s, deltas=deltas) for c, s in case.scored.items()}
    changed = dataclasses.replace(case, scored=scored)
    return dataclasses.replace(baseline, cases={**baseline.cases, case_id: changed})


def choose(
    cases: GoldenSet,
    baseline: Baseline,
    count: int = 6,
    tokens: int = 1000,
    faults: FaultZ | None = None,
) -> tuple[str, ...]:
    return choose_sentinel(cases, baseline, count=count, tokens=tokens, faults=faults).case_ids


def test_number_and_tokens_are_kept_to(cases: GoldenSet, baseline: Baseline) -> None:
    found = choose_sentinel(cases, baseline, count=5, tokens=100)
    assert 1 <= len(found.picks) <= 5
    assert found.scored_tokens <= 100
    assert found.golden_digest == baseline.golden_digest
    assert all(pick.why for pick in found.picks)
    assert len(set(found.case_ids)) == len(found.case_ids)


def test_the_choice_is_the_same_whatever_the_order_of_the_cases(
    cases: GoldenSet, baseline: Baseline
) -> None:
    assert choose(cases, baseline) == choose(list(reversed(cases)), baseline)


def test_languages_and_one_long_context_are_covered(cases: GoldenSet, baseline: Baseline) -> None:
    tags = {"case-05": ("lang:th",), "case-06": ("lang:ar",)}
    found = choose(tagged(cases, tags), baseline)
    assert {"case-05", "case-06"} <= set(found)
    longs = [i for i in found if baseline.cases[i].channel is Channel.LONG_CONTEXT]
    assert len(longs) == 1


def test_four_seeded_answers_are_watched(cases: GoldenSet, baseline: Baseline) -> None:
    """A sampler that draws otherwise moves no score."""
    seeded = {case.id for case in cases if baseline.cases[case.id].channel is Channel.SEEDED}
    assert len(seeded) >= 5
    found = choose(cases, baseline, count=16)
    assert len(seeded & set(found)) >= 4
    greedy = [c.id for c in cases if c.params.is_greedy]
    faults = {"int4": dict.fromkeys(greedy, 9.0)}
    assert len(seeded & set(choose(cases, baseline, count=16, faults=faults))) == 4, (
        "what is seen of recorded faults would leave all of them out"
    )
    assert len(seeded & set(choose(cases, baseline, count=8, faults=faults))) == 2
    assert len(choose(cases, baseline, count=3, faults=faults)) == 3


def test_cases_that_are_restless_in_health_are_left_out(
    cases: GoldenSet, baseline: Baseline
) -> None:
    restless = with_deltas(baseline, "case-05", 0.0, 0.9, 0.1)
    tags = {"case-05": ("lang:th",)}
    found = choose_sentinel(tagged(cases, tags), restless, count=6, tokens=1000)
    assert "case-05" not in found.case_ids
    assert "restless" in found.dropped["case-05"]
    assert "case-06" not in found.dropped, "cases without spread are no top tenth"


def test_cases_without_scores_are_left_out_and_none_at_all_is_no_set(
    cases: GoldenSet, baseline: Baseline
) -> None:
    bare = {i: dataclasses.replace(c, scored={}) for i, c in baseline.cases.items()}
    some = dataclasses.replace(baseline, cases={**baseline.cases, "case-00": bare["case-00"]})
    found = choose_sentinel(cases, some, count=40, tokens=10_000)
    assert "case-00" not in found.case_ids
    assert "cannot be scored" in found.dropped["case-00"]
    with pytest.raises(NoData, match="can be scored"):
        choose(cases, dataclasses.replace(baseline, cases=bare))
    with pytest.raises(NoData, match="with 1 tokens"):
        choose(cases, baseline, tokens=1)


@pytest.mark.parametrize(
    ("faults", "first"),
    [
        ({"a": {"case-09": 5.0}}, "case-09"),
        # Only one case sees both: the weakest fault counts, not the sum.
        ({"a": {"case-09": 50.0, "case-11": 5.0}, "b": {"case-11": 5.0}}, "case-11"),
        # No case raises the weakest of both; one sees something at least.
        ({"a": {"case-09": 9.0}, "b": {"case-11": 5.0}}, "case-11"),
        # Many cases that see a little see it together.
        ({"a": {f"case-{n:02}": 3.0 + n / 100 for n in range(10)}}, "case-09"),
    ],
)
def test_recorded_faults_go_before_coverage(
    cases: GoldenSet, baseline: Baseline, faults: FaultZ, first: str
) -> None:
    found = choose_sentinel(cases, baseline, count=3, tokens=1000, faults=faults)
    assert found.picks[0].case_id == first
    assert "weakest fault" in found.picks[0].why


def test_answers_with_undecided_tokens_are_preferred(cases: GoldenSet, baseline: Baseline) -> None:
    case = baseline.cases["case-13"]
    reference = dataclasses.replace(
        case.reference, logprobs=(-1.0,) * len(case.reference.token_ids)
    )
    known = {
        **{
            i: dataclasses.replace(
                c, reference=dataclasses.replace(c.reference, logprobs=(-0.1,) * 9)
            )
            for i, c in baseline.cases.items()
        },
        "case-13": dataclasses.replace(case, reference=reference),
    }
    found = choose_sentinel(cases, dataclasses.replace(baseline, cases=known), count=4, tokens=1000)
    assert "case-13" in found.case_ids
    assert any("undecided" in pick.why for pick in found.picks)


def test_cases_that_see_different_faults_go_before_one_that_sees_nothing(
    cases: GoldenSet, baseline: Baseline
) -> None:
    rich = tagged(cases, {"case-05": ("lang:th", "axis:math")})
    faults = {
        "int4": {"case-09": 9.0, "case-11": 0.1, "case-05": 0.0},
        "nan": {"case-09": 0.2, "case-11": 8.0, "case-05": 0.0},
    }
    assert choose(rich, baseline, count=2)[0] == "case-05", "by coverage it would be the first"
    found = choose_sentinel(rich, baseline, count=3, tokens=1000, faults=faults)
    assert set(found.case_ids[:2]) == {"case-09", "case-11"}
    first, second, third = (pick.why for pick in found.picks)
    assert first.startswith("sees 1 more fault (int4)")
    assert second.startswith("sees 1 more fault (nan)")
    assert "nan, from 0.2 to 5.8 sigma" in second
    assert third.startswith("sees no further fault")


def test_many_faults_are_not_all_named(cases: GoldenSet, baseline: Baseline) -> None:
    faults = {f"fault-{n}": {"case-09": 9.0} for n in range(5)}
    why = choose_sentinel(cases, baseline, count=1, tokens=1000, faults=faults).picks[0].why
    assert "sees 5 more faults (fault-0, fault-1, fault-2, …)" in why


def test_a_fault_that_no_case_sees_is_told_and_does_not_choose(
    cases: GoldenSet, baseline: Baseline
) -> None:
    seen = {"int4": {"case-09": 9.0, "case-11": 5.0}}
    ghost = {"ghost": {"case-13": 1.5, "case-09": 0.3}}
    found = choose_sentinel(cases, baseline, count=4, tokens=1000, faults={**seen, **ghost})
    assert found.unseen == ("ghost",)
    assert found.case_ids == choose(cases, baseline, count=4, faults=seen)
    assert choose(cases, baseline, count=4, faults=ghost) == choose(cases, baseline, count=4)
