"""Both logits processors on real tensors: entropy, NaN, masks, correction, moves of the batch."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from quality_lib.errors import BadInput
from quality_lib.serving.entropy_core import (
    Correction,
    Entropies,
    StepMeter,
    check_arguments,
    correction_of,
)
from quality_lib.serving.entropy_layout import request_key
from quality_lib.serving.entropy_reader import EntropyReader
from quality_lib.serving.entropy_writer import EntropyWriter

pytest.importorskip("vllm")

from vllm import SamplingParams
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality

from quality_lib.serving import logits_processor_v1, logits_processor_v2

VOCABULARY = 1000
CORRECTION = Correction(max_entropy=5.0, temperature=0.3)


def flat(rows: int = 1) -> torch.Tensor:
    return torch.zeros(rows, VOCABULARY)


def peaked(rows: int = 1) -> torch.Tensor:
    logits = torch.zeros(rows, VOCABULARY)
    logits[:, 7] = 30.0
    return logits


def params(temperature: float = 1.0, **extra: Any) -> Any:
    return SamplingParams(temperature=temperature, extra_args=extra or None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_entropy_is_that_of_the_textbook(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    logits = torch.randn(5, VOCABULARY) * torch.tensor([[0.0], [1.0], [3.0], [10.0], [100.0]])
    logits = logits.to(dtype)
    p = torch.softmax(logits.double(), -1)
    expected = -(p * p.clamp_min(1e-300).log()).sum(-1)
    assert Entropies()(logits).double().allclose(expected, atol=2e-4)


def test_masked_tokens_are_no_nan_and_nan_is() -> None:
    logits = torch.zeros(5, VOCABULARY)
    logits[0, 10:] = -math.inf
    logits[1, 1:] = -math.inf
    logits[2, 3] = math.nan
    logits[3, 3] = math.inf
    logits[4, :] = -math.inf
    found = Entropies()(logits).tolist()
    assert found[:2] == [pytest.approx(math.log(10)), pytest.approx(0.0, abs=1e-6)]
    assert all(map(math.isnan, found[2:]))


def test_working_memory_of_a_larger_step_does_not_leak_into_a_smaller_one() -> None:
    entropies = Entropies()
    entropies(flat(8))
    assert entropies(peaked(2)).tolist() == [pytest.approx(0.0, abs=1e-6)] * 2


class V1:
    """The first interface, driven as the runner drives it."""

    def __init__(self, meter: StepMeter) -> None:
        self.processor = logits_processor_v1.EntropyProcessor(
            None, torch.device("cpu"), False, meter
        )

    def add(self, *requests: Any) -> None:
        added: list[Any] = [(i, p, None, []) for i, p in enumerate(requests)]
        self.processor.update_state(BatchUpdate(len(requests), [], added, []))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        self.processor.update_state(None)
        return self.processor.apply(logits)


class V2:
    """The interface of model runner V2; slots are not in the order of the rows."""

    def __init__(self, meter: StepMeter) -> None:
        state = SimpleNamespace(max_num_reqs=16, device=torch.device("cpu"))
        self.processor = logits_processor_v2.EntropyProcessor(None, state, meter)
        self.slots: list[int] = []

    def add(self, *requests: Any) -> None:
        self.slots = [15 - i for i in range(len(requests))]
        for slot, request in zip(self.slots, requests, strict=True):
            assert self.processor.add_request(slot, request)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        self.processor.apply_staged_writes()
        slots = np.array(self.slots, dtype=np.int32)
        ctx = SimpleNamespace(
            idx_mapping_np=slots, expanded_idx_mapping=torch.from_numpy(slots).long()
        )
        return self.processor.apply(logits, ctx)


@pytest.fixture(params=[V1, V2])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def driver(correction: Correction | None = CORRECTION) -> tuple[Any, EntropyReader]:
        writer = EntropyWriter(tmp_path)
        return request.param(StepMeter(correction, writer)), EntropyReader(tmp_path)

    return driver


def test_both_are_what_vllm_takes() -> None:
    from vllm.v1.sample.logits_processor import _load_logitsprocs_by_fqcns
    from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs_by_fqcns

    v1 = "quality_lib.serving.logits_processor_v1:EntropyProcessor"
    v2 = "quality_lib.serving.logits_processor_v2:EntropyProcessor"
    assert _load_logitsprocs_by_fqcns([v1]) == [logits_processor_v1.EntropyProcessor]
    assert _load_v2_logitsprocs_by_fqcns([v2]) == [logits_processor_v2.EntropyProcessor]


def test_every_row_is_counted_and_followed_rows_are_told(make: Any) -> None:
    driver, reader = make(None)
    driver.add(params(0.0), params(1.0, quality_id="b"), params(0.7))
    reader.follow("b")
    logits = torch.cat([peaked(), flat(), flat()])
    assert torch.equal(driver.apply(logits.clone()), logits)
    counts = reader.counts()
    assert (counts.rows, counts.corrected_rows, counts.nan_rows) == (3, 0, 0)
    assert counts.entropy_sum == pytest.approx(2 * math.log(VOCABULARY), rel=1e-4)
    assert reader.take("b") == [pytest.approx(math.log(VOCABULARY), rel=1e-4)]


def test_nan_rows_are_counted_told_and_left_as_they_are(make: Any) -> None:
    driver, reader = make()
    driver.add(params(1.0, quality_id="a"), params(1.0))
    reader.follow("a")
    logits = torch.cat([flat(), peaked()])
    logits[0, 5] = math.nan
    out = driver.apply(logits)
    assert math.isnan(out[0, 5])
    assert int(out.isnan().sum()) == 1
    assert reader.counts().nan_rows == 1
    assert math.isnan(reader.take("a")[0])


def test_only_flat_rows_that_may_be_are_corrected(make: Any) -> None:
    driver, reader = make()
    requests = [
        params(0.0),  # greedy
        params(1.0),  # flat: corrected
        params(2.0),  # flat: corrected
        params(1.0, quality_correct="off"),
        params(0.2),  # cooler than the correction already
        params(1.0),  # sure of itself
    ]
    driver.add(*requests)
    torch.manual_seed(2)
    logits = torch.randn(5, VOCABULARY)
    logits = torch.cat([logits, peaked()])
    out = driver.apply(logits.clone())
    factors = [1.0, 1 / 0.3, 2 / 0.3, 1.0, 1.0, 1.0]
    assert torch.equal(out, logits * torch.tensor(factors).unsqueeze(1))
    assert torch.equal(out.argmax(-1), logits.argmax(-1))
    assert reader.counts().corrected_rows == 2


def test_the_entropy_that_decides_is_at_the_requests_own_temperature(make: Any) -> None:
    torch.manual_seed(3)
    logits = torch.randn(1, VOCABULARY) * 3.0
    at = {t: float(Entropies()(logits / t)) for t in (0.5, 1.0, 2.0)}
    assert at[0.5] < at[1.0] < 5.0 < at[2.0]
    for temperature, is_corrected in ((0.5, False), (1.0, False), (2.0, True)):
        driver, reader = make()
        driver.add(params(temperature))
        before = reader.counts().corrected_rows
        driver.apply(logits.clone())
        assert (reader.counts().corrected_rows > before) is is_corrected


def test_v1_follows_requests_through_the_batch(tmp_path: Path) -> None:
    driver = V1(StepMeter(None, EntropyWriter(tmp_path)))
    reader = EntropyReader(tmp_path)
    for name in "abcd":
        reader.follow(name)
    driver.add(*(params(1.0, quality_id=name) for name in "abc"))
    steps = [torch.zeros(3, VOCABULARY), torch.zeros(3, VOCABULARY), torch.zeros(2, VOCABULARY)]
    for logits in steps:
        for row in range(len(logits)):
            logits[row, : 10 * (row + 1)] += 20.0
    told: list[dict[str, list[int]]] = []

    def step(logits: torch.Tensor, update: BatchUpdate | None) -> None:
        if update is not None:
            driver.processor.update_state(update)
        driver.apply(logits)
        told.append({n: [round(math.exp(v) / 10) for v in reader.take(n)] for n in "abcd"})

    swap, one_way = MoveDirectionality.SWAP, MoveDirectionality.UNIDIRECTIONAL
    step(steps[0], None)
    step(steps[1], BatchUpdate(3, [], [], [(0, 2, swap)]))
    # b (row 1) leaves, a (row 2) moves there, d takes row 0 from c.
    added: list[Any] = [(0, params(1.0, quality_id="d"), None, [])]
    step(steps[2], BatchUpdate(2, [1], added, [(2, 1, one_way)]))
    assert told == [
        {"a": [1], "b": [2], "c": [3], "d": []},
        {"a": [3], "b": [2], "c": [1], "d": []},
        {"a": [2], "b": [], "c": [], "d": [1]},
    ]


def test_v2_forgets_the_slots_last_request(tmp_path: Path) -> None:
    driver = V2(StepMeter(CORRECTION, EntropyWriter(tmp_path)))
    reader = EntropyReader(tmp_path)
    reader.follow("old")
    driver.add(params(1.0, quality_id="old"))
    driver.apply(flat())
    driver.add(params(0.0))
    logits = torch.randn(1, VOCABULARY)
    assert torch.equal(driver.apply(logits.clone()), logits)
    assert len(reader.take("old")) == 1


def test_v2_counts_all_rows_of_drafts_and_follows_none(tmp_path: Path) -> None:
    meter = StepMeter(CORRECTION, EntropyWriter(tmp_path))
    driver = V2(meter)
    reader = EntropyReader(tmp_path)
    reader.follow("a")
    driver.add(params(1.0, quality_id="a"), params(0.0))
    driver.processor.apply_staged_writes()
    ctx = SimpleNamespace(
        idx_mapping_np=np.array(driver.slots),
        expanded_idx_mapping=torch.tensor([driver.slots[0]] * 3 + [driver.slots[1]]),
    )
    torch.manual_seed(4)
    logits = torch.randn(4, VOCABULARY)
    out = driver.processor.apply(logits.clone(), ctx)
    assert torch.allclose(out[:3], logits[:3] / 0.3)
    assert torch.equal(out[3], logits[3])
    counts = reader.counts()
    assert counts is not None
    assert (counts.rows, counts.corrected_rows) == (4, 3)
    assert reader.take("a") == []


def test_a_failure_is_told_once_and_the_engine_goes_on(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    driver, reader = make()
    driver.add(params(1.0))
    whole = torch.zeros(1, 1, VOCABULARY)
    for _ in range(2):
        assert driver.apply(whole) is whole
    assert [r.message for r in caplog.records] == [
        "entropies are not measured any more in this process"
    ]
    assert reader.counts().rows == 0


def test_odd_arguments_that_nobody_checked_do_no_harm(make: Any) -> None:
    driver, reader = make()
    driver.add(params(1.0, quality_id=5, quality_correct=["off"]))
    driver.apply(flat())
    assert reader.counts().rows == 1


def test_an_empty_step_is_nothing(make: Any) -> None:
    driver, _ = make()
    driver.add()
    assert driver.apply(torch.zeros(0, VOCABULARY)).shape == (0, VOCABULARY)


@pytest.mark.parametrize(
    "extra",
    [
        {"quality_id": 5},
        {"quality_id": "x" * 300},
        {"quality_correct": "never"},
        {"quality_correct": 1},
        {"quality_correct": ["on"]},
    ],
)
def test_arguments_that_mean_nothing_are_refused(extra: dict[str, Any]) -> None:
    for processor in (logits_processor_v1, logits_processor_v2):
        with pytest.raises(ValueError, match="vllm_xargs"):
            processor.EntropyProcessor.validate_params(params(1.0, **extra))


@pytest.mark.parametrize("extra", [{}, {"quality_id": "a", "quality_correct": "on"}, {"other": 1}])
def test_arguments_of_others_are_let_through(extra: dict[str, Any]) -> None:
    check_arguments(params(1.0, **extra))


CONFIG = """
services:
  chat:
    endpoint: http://127.0.0.1:1
    model: m
    weights: w
    gates: {{reaction: {reaction}, bounds: {bounds}, stream: {{reaction: {stream}}}}}
"""


@pytest.mark.parametrize(
    ("reaction", "stream", "bounds", "expected"),
    [
        ("enforce, disabled: [stream]", "correct", "null", None),
        ("observe", "correct", "null", None),
        ("enforce", "stop", "null", None),
        ("enforce", "correct", "null", Correction(6.5, 0.3)),
        ("enforce", "correct", "bounds.json", Correction(4.25, 0.3)),
    ],
)
def test_the_configuration_decides(
    tmp_path: Path, reaction: str, stream: str, bounds: str, expected: Correction | None
) -> None:
    learned = tmp_path / "bounds.json"
    learned.write_text('{"schema": 1, "step_entropy": {"low": null, "high": 4.25}}')
    config = tmp_path / "quality.yaml"
    path = "null" if bounds == "null" else str(learned)
    config.write_text(CONFIG.format(reaction=reaction, stream=stream, bounds=path))
    env = {"QUALITY_CONFIG": str(config), "QUALITY_SERVICE": "chat"}
    assert correction_of(env) == expected


def test_a_server_without_a_configuration_only_measures() -> None:
    assert correction_of({}) is None


def test_a_broken_configuration_is_told_at_the_start(tmp_path: Path) -> None:
    env = {"QUALITY_CONFIG": str(tmp_path / "no.yaml"), "QUALITY_SERVICE": "chat"}
    with pytest.raises(BadInput, match=r"no\.yaml"):
        correction_of(env)


def test_a_key_is_stable_and_never_the_one_of_nobody() -> None:
    assert request_key("a") == request_key("a") != request_key("b")
    assert request_key("") != 0
