"""From runs to verdicts: healthy look-alikes stay healthy, every kind of fault is told apart."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import pytest

from quality_lib.errors import BadInput, DigestMismatch, NoData, OutsideFailure
from quality_lib.golden.answer import Answer, Channel, Fault, GoldenRun
from quality_lib.golden.baseline import Baseline, build_baseline, logprob_delta
from quality_lib.golden.case import GoldenCase, GoldenSet, Params
from quality_lib.golden.comparison import Comparison, Limits, compare
from quality_lib.golden.plan import first_attempts
from quality_lib.golden.verdict import Floors, GoldenVerdict, judge
from quality_lib.records import Outcome, Summary, Tri, Verdict
from tests.fakes_model import FakeModel, garble, shift_scores
from tests.golden.conftest import DIGEST, run_of, words_in_common


def compared(cases: GoldenSet, baseline: Baseline, run: GoldenRun) -> Comparison:
    return compare(cases, run, baseline, words_in_common, Limits(), DIGEST)


def verdict_of(
    cases: GoldenSet, baseline: Baseline, change: Callable[[Answer], Answer]
) -> GoldenVerdict:
    run = run_of(cases, FakeModel(change=change), "now", baseline.references(), baseline.run_ids[0])
    return judge(compared(cases, baseline, run), Floors())


def lose(share: float, fault: Fault = Fault.TRANSPORT) -> Callable[[Answer], Answer]:
    def change(answer: Answer) -> Answer:
        hit = hash_share(answer.probe.key) < share
        return Answer(answer.probe, fault=fault, error="gone") if hit else answer

    return change


def garble_cases(*numbers: int) -> Callable[[Answer], Answer]:
    def change(answer: Answer) -> Answer:
        hit = answer.probe.case_id in {f"case-{n:02d}" for n in numbers} and answer.text
        return garble(1.0)(answer) if hit else answer

    return change


def hash_share(text: str) -> float:
    import zlib

    return zlib.crc32(text.encode()) / 2**32


def test_a_healthy_run_is_healthy_and_unchanged(cases: GoldenSet, baseline: Baseline) -> None:
    verdict = verdict_of(cases, baseline, lambda answer: answer)
    assert (verdict.summary, verdict.changed, verdict.degraded) == (
        Summary.HEALTHY,
        Tri.NO,
        Tri.NO,
    )
    assert verdict.is_good
    assert verdict.reasons == ()
    assert verdict.worst_cases == ()
    assert verdict.suspected is None


@pytest.mark.parametrize(
    ("change", "summary", "changed", "code"),
    [
        (shift_scores(1e-6), Summary.HEALTHY, Tri.YES, "logprob_delta_raw_scored"),
        (shift_scores(0.3), Summary.HEALTHY, Tri.YES, "logprob_delta_chat_scored"),
        (shift_scores(9.0), Summary.FAILED, Tri.YES, "logprob_gross"),
        (garble(1.0), Summary.FAILED, Tri.YES, "similarity_below_failed_floor"),
        (garble_cases(1, 3, 5, 7, 9), Summary.DEGRADED, Tri.YES, "similarity_greedy"),
        (garble(1.0, (Channel.SEEDED,)), Summary.DEGRADED, Tri.YES, "similarity_seeded"),
        (lose(0.3), Summary.INCONCLUSIVE, Tri.UNKNOWN, "too_few_answers"),
        (lose(1.0), Summary.INCONCLUSIVE, Tri.UNKNOWN, "too_few_answers"),
        (lose(0.5, Fault.REFUSED), Summary.FAILED, Tri.YES, "cases_missing"),
    ],
)
def test_each_kind_of_fault_gets_its_own_verdict(
    cases: GoldenSet,
    baseline: Baseline,
    change: Callable[[Answer], Answer],
    summary: Summary,
    changed: Tri,
    code: str,
) -> None:
    if summary is Summary.INCONCLUSIVE:
        run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
        run = dataclasses.replace(run, answers={k: change(a) for k, a in run.answers.items()})
        verdict = judge(compared(cases, baseline, run), Floors())
    else:
        verdict = verdict_of(cases, baseline, change)
    assert code in {reason.code for reason in verdict.reasons}
    assert verdict.summary is summary
    assert verdict.changed is changed
    assert not verdict.is_good


def test_a_near_tie_that_flips_in_one_case_of_each_channel_is_no_finding(
    cases: GoldenSet, baseline: Baseline
) -> None:
    """Other traffic in the batch does this to a healthy server, however alike its baseline runs."""
    flipped = {"case-07", "case-21", "case-28"}

    def flip(answer: Answer) -> Answer:
        hit = answer.probe.case_id in flipped and answer.text
        return dataclasses.replace(answer, text="all the words are others") if hit else answer

    verdict = verdict_of(cases, baseline, flip)
    assert (verdict.summary, verdict.changed) == (Summary.HEALTHY, Tri.NO)
    assert verdict.is_good


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("attempts", [1, 2])
def test_one_case_alone_proves_nothing_of_its_channel(temperature: float, attempts: int) -> None:
    """A set with one sampled case once failed a healthy hour: agreement 0 of 1, healthy 1."""
    lone = (
        GoldenCase(
            id="lone",
            messages=({"role": "user", "content": "question"},),
            params=Params(temperature=temperature, seed=1, max_tokens=16),
            repeats=attempts,
        ),
    )
    runs = [run_of(lone, FakeModel(), "first")]
    reference = first_attempts(runs[0].answers.values())
    runs += [run_of(lone, FakeModel(), f"r{n}", reference, "first") for n in range(2)]
    baseline = build_baseline(lone, runs, words_in_common, "2026-01-01T00:00:00+00:00")

    def flip_last(answer: Answer) -> Answer:
        last = answer.text and answer.probe.attempt == attempts
        return dataclasses.replace(answer, text="something else entirely") if last else answer

    changed = run_of(lone, FakeModel(change=flip_last), "now", reference, "first")
    findings = compare(lone, changed, baseline, words_in_common, Limits(), DIGEST).findings
    assert [f.statistic for f in findings if f.outcome is Outcome.FAILED] == []


def test_a_few_lost_requests_neither_fail_nor_hide_anything(
    cases: GoldenSet, baseline: Baseline
) -> None:
    run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
    run = dataclasses.replace(run, answers={k: lose(0.03)(a) for k, a in run.answers.items()})
    comparison = compared(cases, baseline, run)
    assert comparison.lost > 0
    assert judge(comparison, Floors()).summary is Summary.HEALTHY


def test_a_case_that_is_not_in_the_run_is_a_failure(cases: GoldenSet, baseline: Baseline) -> None:
    run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
    left = {k: a for k, a in run.answers.items() if a.probe.case_id != "case-05"}
    comparison = compared(cases, baseline, dataclasses.replace(run, answers=left))
    verdict = judge(comparison, Floors())
    assert verdict.summary is Summary.FAILED
    assert verdict.worst_cases[0] == "case-05"
    assert [c.missing for c in comparison.missing] == ["not in the run"]


def test_a_critical_case_that_stops_passing_fails_the_run(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def shorten(answer: Answer) -> Answer:
        hit = answer.probe.case_id == "case-00" and answer.text
        return dataclasses.replace(answer, text="no") if hit else answer

    verdict = verdict_of(cases, baseline, shorten)
    assert verdict.summary is Summary.FAILED
    assert "critical_case_failed" in {r.code for r in verdict.reasons}
    assert verdict.worst_cases[0] == "case-00"


def test_forgotten_facts_are_degraded_even_when_the_text_looks_alike(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def forget(answer: Answer) -> Answer:
        return dataclasses.replace(answer, text=answer.text.replace("violet", "purple"))

    verdict = verdict_of(cases, baseline, forget)
    assert verdict.degraded is Tri.YES
    assert "facts" in {r.code for r in verdict.reasons}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (shift_scores(0.3), "weights"),
        (shift_scores(0.3, (Channel.CHAT_SCORED,)), "chat template"),
        (garble(1.0, (Channel.SEEDED,)), "sampler"),
        (garble(1.0, (Channel.LONG_CONTEXT,)), "long context"),
        (garble(1.0, (Channel.GREEDY,)), "decod"),
    ],
)
def test_the_channels_that_moved_say_where_the_fault_sits(
    cases: GoldenSet, baseline: Baseline, change: Callable[[Answer], Answer], words: str
) -> None:
    suspected = verdict_of(cases, baseline, change).suspected
    assert suspected is not None
    assert words in suspected


def test_another_prompt_tokenisation_is_a_change(cases: GoldenSet, baseline: Baseline) -> None:
    def double_bos(answer: Answer) -> Answer:
        if not answer.text:
            return answer
        return dataclasses.replace(answer, prompt_token_ids=(1, *answer.prompt_token_ids))

    verdict = verdict_of(cases, baseline, double_bos)
    assert verdict.changed is Tri.YES
    assert "contract_contract" in {r.code for r in verdict.reasons}


def test_a_changed_interface_fact_is_named(cases: GoldenSet, baseline: Baseline) -> None:
    model = FakeModel(facts={"max_model_len": 1024})
    run = run_of(cases, model, "now", baseline.references(), baseline.run_ids[0])
    verdict = judge(compared(cases, baseline, run), Floors())
    assert verdict.changed is Tri.YES
    assert "2048 → 1024" in verdict.reasons[0].sentence


def test_a_missing_log_probability_is_a_change_not_a_zero(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def drop(answer: Answer) -> Answer:
        hit = answer.probe.channel is Channel.RAW_SCORED
        return dataclasses.replace(answer, logprobs=(None, *answer.logprobs[1:])) if hit else answer

    assert verdict_of(cases, baseline, drop).changed is Tri.YES


def test_a_failed_startup_fact_is_a_change_and_an_unseen_one_is_not(
    cases: GoldenSet, baseline: Baseline
) -> None:
    run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
    comparison = compared(cases, baseline, run)
    unseen = Verdict(Outcome.UNJUDGED, "startup_dtype", "dtype: could not be observed")
    other = Verdict(Outcome.FAILED, "startup_dtype", "dtype: float16 instead of bfloat16")
    assert judge(comparison, Floors(), (unseen,)).changed is Tri.NO
    assert judge(comparison, Floors(), (other,)).changed is Tri.YES


def test_a_baseline_of_another_golden_set_is_refused(cases: GoldenSet, baseline: Baseline) -> None:
    run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
    with pytest.raises(DigestMismatch, match="new baseline"):
        compare(cases, run, baseline, words_in_common, Limits(), "e" * 64)


def test_a_baseline_of_one_run_or_with_holes_is_refused(
    cases: GoldenSet, healthy_runs: Sequence[GoldenRun]
) -> None:
    with pytest.raises(NoData, match="at least 2"):
        build_baseline(cases, healthy_runs[:1], words_in_common, "now")
    key = "case-04/greedy/2"
    hole = Answer(healthy_runs[1].answers[key].probe, fault=Fault.REFUSED, error="HTTP 500")
    holed = dataclasses.replace(healthy_runs[1], answers={**healthy_runs[1].answers, key: hole})
    with pytest.raises(NoData, match=r"case-04/greedy/2: HTTP 500"):
        build_baseline(cases, [healthy_runs[0], holed], words_in_common, "now")


def test_an_interface_that_changed_between_healthy_runs_is_refused(
    cases: GoldenSet, healthy_runs: Sequence[GoldenRun]
) -> None:
    other = dataclasses.replace(healthy_runs[1], contract={"max_model_len": 4096})
    with pytest.raises(BadInput, match="max_model_len"):
        build_baseline(cases, [healthy_runs[0], other], words_in_common, "now")


@pytest.mark.parametrize(
    ("reference", "current", "delta"),
    [
        ((-1.0, -2.0), (-1.0, -2.0), 0.0),
        ((-1.0, -2.0), (-1.5, -2.5), 0.5),
        ((None, -2.0), (None, -2.0), 0.0),
        ((-1.0,), (None,), math.inf),
        ((-1.0,), (math.nan,), math.inf),
        ((-1.0,), (-1.0, -1.0), math.inf),
        ((), (), math.inf),
    ],
)
def test_logprob_delta(
    reference: tuple[float | None, ...], current: tuple[float | None, ...], delta: float
) -> None:
    assert logprob_delta(reference, current) == delta


def test_noise_of_the_size_of_the_healthy_runs_is_no_change(cases: GoldenSet) -> None:
    """On a platform with rounding noise the band, not equality, decides."""

    def noisy(seed: str) -> Callable[[Answer], Answer]:
        def change(answer: Answer) -> Answer:
            by = 0.02 * (hash_share(seed + answer.probe.key) - 0.5)
            return shift_scores(by)(answer)

        return change

    first = run_of(cases, FakeModel(change=noisy("a")), "first")
    reference = first_attempts(first.answers.values())
    runs = [first] + [
        run_of(cases, FakeModel(change=noisy(n)), n, reference, "first") for n in ("b", "c")
    ]
    baseline = build_baseline(cases, runs, words_in_common, "now")
    assert not baseline.is_deterministic(Channel.RAW_SCORED)
    assert verdict_of(cases, baseline, noisy("d")).is_good
    assert verdict_of(cases, baseline, shift_scores(0.2)).changed is Tri.YES


def test_other_traffic_in_the_batch_is_no_change_on_a_platform_that_repeats(
    cases: GoldenSet, baseline: Baseline
) -> None:
    """Attempts that differ among themselves show that bits cannot be compared right now."""

    def shared_batch(by: float) -> Callable[[Answer], Answer]:
        def change(answer: Answer) -> Answer:
            return shift_scores(by if answer.probe.attempt == 2 else by / 2)(answer)

        return change

    assert baseline.is_deterministic(Channel.RAW_SCORED)
    assert verdict_of(cases, baseline, shared_batch(0.03)).is_good
    assert verdict_of(cases, baseline, shared_batch(0.2)).changed is Tri.YES


def without(share_of: Callable[[Answer], bool]) -> Callable[[Answer], Answer]:
    def change(answer: Answer) -> Answer:
        if share_of(answer):
            return Answer(answer.probe, fault=Fault.TRANSPORT, error="gone")
        return answer

    return change


def judged(
    cases: GoldenSet, baseline: Baseline, *changes: Callable[[Answer], Answer]
) -> GoldenVerdict:
    run = run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])
    answers = dict(run.answers)
    for change in changes:
        answers = {key: change(answer) for key, answer in answers.items()}
    return judge(compared(cases, baseline, dataclasses.replace(run, answers=answers)), Floors())


@pytest.mark.parametrize("channel", list(Channel)[:-1])
def test_a_channel_without_data_is_never_a_pass(
    cases: GoldenSet, baseline: Baseline, channel: Channel
) -> None:
    verdict = judged(cases, baseline, without(lambda a: a.probe.channel is channel))
    assert not verdict.is_good
    assert verdict.degraded is not Tri.YES, "lost requests are nobody's quality"
    assert verdict.reasons


def test_a_critical_case_that_was_lost_is_not_passed(cases: GoldenSet, baseline: Baseline) -> None:
    verdict = judged(
        cases,
        baseline,
        without(lambda a: a.probe.case_id == "case-00" and a.probe.channel is Channel.GREEDY),
    )
    assert verdict.summary is Summary.INCONCLUSIVE
    assert "critical_case_lost" in {r.code for r in verdict.reasons}


def test_half_of_a_critical_case_refused_is_no_failed_check(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def refuse(answer: Answer) -> Answer:
        hit = answer.probe.key == "case-00/greedy/2"
        return Answer(answer.probe, fault=Fault.REFUSED, error="HTTP 500") if hit else answer

    verdict = judged(cases, baseline, refuse)
    assert "critical_case_failed" not in {r.code for r in verdict.reasons}
    assert not verdict.is_good


def test_losses_do_not_turn_means_into_bad_quality_and_do_not_hide_a_change(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def lost_half(answer: Answer) -> Answer:
        return lose(0.5)(answer)

    quiet = judged(cases, baseline, garble(0.2), lost_half)
    assert quiet.summary is Summary.INCONCLUSIVE
    assert quiet.degraded is Tri.UNKNOWN
    moved = judged(cases, baseline, shift_scores(0.3), lost_half)
    assert moved.summary is Summary.INCONCLUSIVE
    assert moved.changed is Tri.YES
    assert "changed" in moved.headline


def test_improbable_answers_fail_however_much_was_lost(
    cases: GoldenSet, baseline: Baseline
) -> None:
    assert judged(cases, baseline, shift_scores(9.0), lose(0.5)).summary is Summary.FAILED


def test_a_run_that_scored_other_answers_is_refused(cases: GoldenSet, baseline: Baseline) -> None:
    own = run_of(cases, FakeModel(), "own answers")
    with pytest.raises(DigestMismatch, match="--baseline"):
        compared(cases, baseline, own)


def test_a_checker_that_gives_no_numbers_is_broken_not_bad(
    cases: GoldenSet, baseline: Baseline
) -> None:
    run = run_of(
        cases, FakeModel(change=garble()), "now", baseline.references(), baseline.run_ids[0]
    )
    with pytest.raises(OutsideFailure, match="no numbers"):
        compare(cases, run, baseline, lambda pairs: [math.nan] * len(pairs), Limits(), DIGEST)


def test_a_healthy_answer_that_cannot_be_scored_leaves_its_channel_alone(
    cases: GoldenSet, healthy_runs: Sequence[GoldenRun]
) -> None:
    """Some templates leave nothing of a short answer; a baseline must stay readable."""
    key = "case-02/chat_scored/{}"

    def emptied(run: GoldenRun) -> GoldenRun:
        empty = {
            key.format(n): dataclasses.replace(
                run.answers[key.format(n)], token_ids=(), logprobs=()
            )
            for n in (1, 2)
        }
        return dataclasses.replace(run, answers={**run.answers, **empty})

    baseline = build_baseline(cases, [emptied(r) for r in healthy_runs], words_in_common, "now")
    assert Channel.CHAT_SCORED not in baseline.cases["case-02"].scored
    assert verdict_of(cases, baseline, lambda answer: answer).is_good


def test_one_attempt_cannot_show_that_a_server_repeats_itself(cases: GoldenSet) -> None:
    once = tuple(dataclasses.replace(case, repeats=1) for case in cases)
    first = run_of(once, FakeModel(), "first")
    reference = first_attempts(first.answers.values())
    runs = [first, run_of(once, FakeModel(), "second", reference, "first")]
    baseline = build_baseline(once, runs, words_in_common, "now")
    assert verdict_of(once, baseline, lambda answer: answer).is_good
    assert verdict_of(once, baseline, shift_scores(0.01)).is_good, "shared batches look like this"
    assert verdict_of(once, baseline, shift_scores(0.3)).changed is Tri.YES


def test_runs_of_two_deployments_make_no_baseline(
    cases: GoldenSet, healthy_runs: Sequence[GoldenRun]
) -> None:
    other = dataclasses.replace(healthy_runs[1], deployment_key="other")
    with pytest.raises(BadInput, match="redeployed"):
        build_baseline(cases, [healthy_runs[0], other], words_in_common, "now")
