"""Golden answers as readings of the drift decision, and the rounds that bring them."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime

import pytest

from quality_lib.drift.contract import breaches
from quality_lib.drift.equality import compare_bits
from quality_lib.drift.paired import least_gaps, pair_up
from quality_lib.drift.reading import Block
from quality_lib.golden.answer import Answer, Channel, Fault, GoldenRun, Probe
from quality_lib.golden.baseline import Baseline
from quality_lib.golden.case import GoldenSet
from quality_lib.golden.mode import Mode
from quality_lib.golden.reading import (
    decoded_keys,
    reading_of,
    reading_of_run,
    reference_of,
    scored_keys,
)
from quality_lib.golden.sentinel_round import (
    DECODE_LOAD,
    GIVE_UP_AFTER,
    ask_round,
    ask_sentinel,
)
from tests.fakes_model import FakeModel, shift_scores
from tests.golden.conftest import run_of


@pytest.fixture(scope="module")
def run(cases: GoldenSet, baseline: Baseline) -> GoldenRun:
    return run_of(cases, FakeModel(), "now", baseline.references(), baseline.run_ids[0])


def changed(run: GoldenRun, **fields: object) -> GoldenRun:
    """Change every scored answer of one case."""
    answers = {
        key: dataclasses.replace(answer, **fields)  # type: ignore[arg-type]
        if answer.probe.case_id == "case-03" and answer.probe.channel.endswith("_scored")
        else answer
        for key, answer in run.answers.items()
    }
    return dataclasses.replace(run, answers=answers)


def test_a_healthy_run_is_its_reference_bit_for_bit(baseline: Baseline, run: GoldenRun) -> None:
    keys = scored_keys(baseline)
    reference, reading = reference_of(baseline, keys), reading_of_run(run, "s1", keys)
    assert (reading.check_id, reading.block) == ("now", Block("s1", 1, "warm"))
    assert reference.check_id == baseline.run_ids[0]
    assert breaches(reading, reference) == ()
    bits = compare_bits(reading, reference)
    assert (bits.compared, bits.moved, bits.repeats_itself) == (len(keys), {}, True)
    assert {pair.delta for pair in pair_up(reading, reference)} == {0.0}


def test_long_contexts_are_scored_in_one_way(baseline: Baseline) -> None:
    assert {channel for case, channel in scored_keys(baseline) if case == "case-27"} == {
        "raw_scored"
    }


def test_only_the_chosen_cases_are_read(baseline: Baseline, run: GoldenRun) -> None:
    keys = scored_keys(baseline, ("case-01", "case-02"))
    assert len(keys) == 4
    reading = reading_of_run(run, "s1", keys)
    assert {probe.key for probe in reading.probes} == keys
    assert len(reading.probes) == 8, "second attempts show whether the server repeats itself"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"fault": Fault.REFUSED, "error": "transport: HTTP 500"}, "refused"),
        ({"token_ids": (1, 2, 3), "logprobs": (-1.0, -1.0, -1.0)}, "scored_tokens"),
        ({"logprobs": ()}, "logprobs_missing"),
        ({"fault": Fault.TRANSPORT, "error": "reset"}, None),
    ],
)
def test_what_came_back_broken_is_a_broken_fact_and_what_got_lost_is_not(
    baseline: Baseline, run: GoldenRun, fields: dict[str, object], code: str | None
) -> None:
    keys = scored_keys(baseline)
    reading = reading_of_run(changed(run, **fields), "s1", keys)
    found = {breach.code for breach in breaches(reading, reference_of(baseline, keys))}
    assert found == ({code} if code else set())


def test_a_moved_score_is_a_movement_of_that_size(cases: GoldenSet, baseline: Baseline) -> None:
    model = FakeModel(change=shift_scores(0.25, (Channel.RAW_SCORED,)))
    run = run_of(cases, model, "now", baseline.references(), baseline.run_ids[0])
    keys = scored_keys(baseline)
    for pair in pair_up(reading_of_run(run, "s1", keys), reference_of(baseline, keys)):
        assert pair.delta == pytest.approx(0.25 if pair.key[1] == "raw_scored" else 0.0)


class Counting(FakeModel):
    """Remembers how many probes were under way at once, and with which salt."""

    def __init__(self, is_gone: bool = False) -> None:
        super().__init__()
        self.now, self.most, self.is_gone = 0, 0, is_gone

    async def score(
        self, case: object, probe: Probe, reference: Answer, cache_salt: str = ""
    ) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        self.salts.add(cache_salt)
        if self.is_gone:
            self.asked.append(probe.key)
            return Answer(probe, fault=Fault.TRANSPORT, error="refused")
        return await super().score(case, probe, reference)  # type: ignore[arg-type]


def ask(
    cases: GoldenSet, baseline: Baseline, model: FakeModel, load: int = 1, seed: str = "a"
) -> tuple[Answer, ...]:
    keys = scored_keys(baseline, ("case-01", "case-02", "case-03"))
    return asyncio.run(
        ask_round(
            cases, baseline.references(), keys, model, load=load, cache_salt="salt", seed=seed,
            repeats=2,
        )
    )  # fmt: skip


@pytest.mark.parametrize("load", [1, 4])
def test_a_round_keeps_its_load_and_salt(cases: GoldenSet, baseline: Baseline, load: int) -> None:
    model = Counting()
    answers = ask(cases, baseline, model, load)
    assert (model.most, model.salts, len(answers)) == (load, {"salt"}, 12)
    assert [key.endswith("/2") for key in model.asked] == [False] * 6 + [True] * 6


def test_each_round_has_an_order_of_its_own(cases: GoldenSet, baseline: Baseline) -> None:
    first, again, other = FakeModel(), FakeModel(), FakeModel()
    for model, seed in ((first, "a"), (again, "a"), (other, "b")):
        ask(cases, baseline, model, seed=seed)
    assert first.asked == again.asked != other.asked


def test_a_server_that_is_gone_is_not_asked_to_the_end(
    cases: GoldenSet, baseline: Baseline
) -> None:
    model = Counting(is_gone=True)
    answers = ask(cases, baseline, model)
    assert len(model.asked) == GIVE_UP_AFTER
    assert {answer.fault for answer in answers} == {Fault.TRANSPORT}
    assert len(answers) == 12


WATCHED = ("case-01", "case-20", "case-27")
TEXTS = {("case-01", "greedy"), ("case-20", "seeded"), ("case-27", "long_context")}


class Busy(FakeModel):
    """Remembers how many answers were decoded at once, and under which salts."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.most, self.by_salt = 0, 0, set[tuple[str, str]]()

    async def decode(self, case: object, probe: Probe, cache_salt: str) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        self.by_salt.add(("decode", cache_salt))
        return await super().decode(case, probe, cache_salt)  # type: ignore[arg-type]

    async def score(
        self, case: object, probe: Probe, reference: Answer, cache_salt: str = ""
    ) -> Answer:
        self.by_salt.add(("score", cache_salt))
        return await super().score(case, probe, reference, cache_salt)  # type: ignore[arg-type]


def sentinel(
    cases: GoldenSet, baseline: Baseline, model: FakeModel, ids: tuple[str, ...], mode: Mode
) -> tuple[Answer, ...]:
    keys = scored_keys(baseline, ids) | decoded_keys(baseline, ids)
    references = baseline.references()
    return asyncio.run(ask_sentinel(cases, references, keys, model, mode, "round", salt="salt"))


@pytest.mark.parametrize("mode", [Mode(1, "warm"), Mode(4, "cold")])
def test_decoding_is_done_in_one_way_whatever_the_mode(
    cases: GoldenSet, baseline: Baseline, mode: Mode
) -> None:
    model = Busy()
    answers = sentinel(cases, baseline, model, tuple(case.id for case in cases), mode)
    assert model.most == DECODE_LOAD
    assert model.by_salt == {
        ("score", "" if mode.cache == "warm" else "salt"), ("decode", "salt-decoded"),
    }  # fmt: skip
    assert len(answers) == len(scored_keys(baseline)) + len(cases)
    decoded = [key.split("/")[1] in {"greedy", "seeded", "long_context"} for key in model.asked]
    assert decoded == sorted(decoded), "what is decoded shares no batch with what is scored"


def read_texts(cases: GoldenSet, baseline: Baseline, model: FakeModel):  # type: ignore[no-untyped-def]
    keys = scored_keys(baseline, WATCHED) | decoded_keys(baseline, WATCHED)
    reading = reading_of(
        sentinel(cases, baseline, model, WATCHED, Mode(1, "warm")), check_id="c",
        at=datetime(2026, 1, 1, tzinfo=UTC), block=Block("s", 1, "warm"), keys=keys,
    )  # fmt: skip
    return reading, reference_of(baseline, keys)


def test_of_what_is_decoded_the_tokens_alone_are_read(cases: GoldenSet, baseline: Baseline) -> None:
    assert decoded_keys(baseline, WATCHED) == TEXTS
    reading, reference = read_texts(cases, baseline, FakeModel())
    texts = {probe.key: probe for probe in reading.probes if probe.key in TEXTS}
    assert set(texts) == TEXTS
    for key, probe in texts.items():
        stored = baseline.cases[key[0]].reference
        assert probe.token_ids == stored.token_ids
        gaps = () if key[1] == "seeded" else least_gaps(stored.logprobs)
        assert reference.answered()[key].gaps == gaps
        assert (probe.logprobs, probe.prompt_digest, probe.finish_reason) == ((), None, None)
    assert breaches(reading, reference) == ()
    for pair in pair_up(reading, reference):
        assert pair.fork is None
        assert pair.delta == (None if pair.key in TEXTS else 0.0)


def test_a_text_that_goes_another_way_is_a_fork_and_nothing_else(
    cases: GoldenSet, baseline: Baseline
) -> None:
    def change(answer: Answer) -> Answer:
        if answer.probe.channel is not Channel.SEEDED:
            return answer
        return dataclasses.replace(
            answer, token_ids=(*answer.token_ids[:3], 7, 8), finish_reason="abort", text="other"
        )

    reading, reference = read_texts(cases, baseline, FakeModel(change=change))
    assert breaches(reading, reference) == ()
    forks = {pair.key: pair.fork for pair in pair_up(reading, reference)}
    assert {key: fork for key, fork in forks.items() if fork is not None} == {
        ("case-20", "seeded"): 3
    }


def test_a_run_lends_its_scores_alone(baseline: Baseline, run: GoldenRun) -> None:
    keys = scored_keys(baseline, WATCHED) | decoded_keys(baseline, WATCHED)
    beside = reference_of(baseline, TEXTS).probes
    assert {probe.key for probe in beside} == TEXTS
    assert {p.key for p in reading_of_run(run, "s1", keys).probes} == keys - TEXTS
    with_texts = reading_of_run(run, "s1", keys, beside)
    assert {p.key for p in with_texts.probes} == keys
    assert with_texts.block == Block("s1", 1, "warm")
