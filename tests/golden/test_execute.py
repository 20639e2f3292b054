"""A golden run asks everything, resumes, and gives up on a dead server."""

from __future__ import annotations

import asyncio

import pytest

from quality_lib.errors import OutsideFailure
from quality_lib.golden.answer import SCORED_CHANNELS, Answer, Channel, Fault, Probe
from quality_lib.golden.case import GoldenCase, GoldenSet
from quality_lib.golden.execute import GIVE_UP_AFTER, execute
from tests.fakes_model import FakeModel, MemoryRecorder


def run(cases: GoldenSet, model: FakeModel, recorder: MemoryRecorder, concurrency: int = 4) -> None:
    asyncio.run(execute(cases, model, recorder, concurrency=concurrency, cache_salt="s"))


def test_every_case_goes_through_decoding_and_both_scorings_twice(cases: GoldenSet) -> None:
    recorder = MemoryRecorder()
    run(cases, FakeModel(), recorder)
    for case in cases:
        if "long_context" in case.tags:
            continue
        probes = [a.probe for a in recorder.answers.values() if a.probe.case_id == case.id]
        assert sorted((p.channel in SCORED_CHANNELS, p.attempt) for p in probes) == [
            (False, 1),
            (False, 2),
            (True, 1),
            (True, 1),
            (True, 2),
            (True, 2),
        ]


def test_a_second_attempt_comes_after_every_first(cases: GoldenSet) -> None:
    model = FakeModel()
    run(cases, model, MemoryRecorder())
    attempts = [int(key[-1]) for key in model.asked if "scored" not in key]
    assert attempts == sorted(attempts)


@pytest.mark.parametrize("kept", [0, 1, 50, 10_000])
def test_a_killed_run_asks_only_for_what_is_missing(cases: GoldenSet, kept: int) -> None:
    whole = MemoryRecorder()
    run(cases, FakeModel(), whole)
    half = MemoryRecorder(dict(list(whole.answers.items())[:kept]))
    model = FakeModel()
    run(cases, model, half)
    assert half.answers.keys() == whole.answers.keys()
    assert len(model.asked) == max(0, len(whole.answers) - kept)


@pytest.mark.parametrize("fault", list(Fault))
def test_what_had_no_answer_is_asked_again(cases: GoldenSet, fault: Fault) -> None:
    """A refusal too: it may have been the last word of a dying engine."""
    whole = MemoryRecorder()
    run(cases, FakeModel(), whole)
    key = "case-03/greedy/1"
    whole.answers[key] = Answer(whole.answers[key].probe, fault=fault, error="reset")
    model = FakeModel()
    run(cases, model, whole)
    assert model.asked == [key]


def test_a_dead_server_stops_the_run_and_keeps_what_was_answered(cases: GoldenSet) -> None:
    def die(answer: Answer) -> Answer:
        if answer.probe.attempt == 1:
            return answer
        return Answer(answer.probe, fault=Fault.TRANSPORT, error="connection refused")

    recorder = MemoryRecorder()
    model = FakeModel(change=die)
    with pytest.raises(OutsideFailure, match=r"connection refused.*resume"):
        run(cases, model, recorder)
    assert len(model.asked) < len(cases) + GIVE_UP_AFTER + 5
    assert sum(a.is_judgeable for a in recorder.answers.values()) == len(cases)


def test_no_more_probes_are_under_way_than_allowed(cases: GoldenSet) -> None:
    under_way = 0
    most = 0

    class Slow(FakeModel):
        async def decode(self, case: GoldenCase, probe: Probe, cache_salt: str) -> Answer:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            under_way -= 1
            return await super().decode(case, probe, cache_salt)

    run(cases, Slow(), MemoryRecorder(), concurrency=3)
    assert most == 3


def test_an_answer_of_tool_calls_is_scored_raw_only(cases: GoldenSet) -> None:
    def call(answer: Answer) -> Answer:
        if answer.probe.case_id != "case-01" or not answer.text:
            return answer
        return Answer(
            answer.probe,
            tool_calls=({"name": "f", "arguments": "{}"},),
            prompt_token_ids=answer.prompt_token_ids,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
        )

    recorder = MemoryRecorder()
    run(cases, FakeModel(change=call), recorder)
    channels = {a.probe.channel for a in recorder.answers.values() if a.probe.case_id == "case-01"}
    assert channels == {Channel.GREEDY, Channel.RAW_SCORED}


def test_a_long_prompt_is_scored_raw_only(cases: GoldenSet) -> None:
    recorder = MemoryRecorder()
    run(cases, FakeModel(), recorder)
    channels = {a.probe.channel for a in recorder.answers.values() if a.probe.case_id == "case-26"}
    assert channels == {Channel.LONG_CONTEXT, Channel.RAW_SCORED}
