"""Faults inside the engine, on stand-ins of vLLM's runner with real tensors."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.faults import worker_cache, worker_logits
from bench.faults.engine_changes import Cache, Jitter, Logits, Nothing, Rope
from bench.faults.fault import Change, Target
from bench.faults.worker_undo import UndoStack, UndoStacks

BLOCKS, LAYERS = 6, 3


class _Runner:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.kv_caches = [torch.randn(BLOCKS, 1, 4, 8).to(torch.bfloat16) for _ in range(LAYERS)]
        self.requests = {
            "writes": SimpleNamespace(output_token_ids=[7], block_ids=([4, 2],)),
            "reads": SimpleNamespace(output_token_ids=[], block_ids=([0, 1],)),
        }
        self.steps = 0

    def execute_model(self, scheduled: Any) -> str:
        self.steps += 1
        return "done"

    def step(self) -> str:
        names = SimpleNamespace(req_ids=[*self.requests, "already gone"])
        return str(self.execute_model(SimpleNamespace(scheduled_cached_reqs=names)))


def _given(how: str, layer: int = 1, block: int = 0, factor: float = 2.0**20) -> dict[str, Any]:
    return {"how": how, "layer": layer, "block": block, "factor": factor, "seed": 5}


def _changed(before: list[torch.Tensor], after: list[torch.Tensor]) -> set[tuple[int, int]]:
    return {
        (layer, block)
        for layer, (a, b) in enumerate(zip(before, after, strict=True))
        for block in range(BLOCKS)
        if not torch.equal(a[block], b[block])
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (_given("zero_block"), {(1, 4)}),
        (_given("zero_block", layer=-1, block=1), {(2, 2)}),
        (_given("zero_block", layer=LAYERS), {(0, 4), (1, 4), (2, 4)}),
        (_given("zero_block", block=9), {(1, 2)}),
        (_given("swap_blocks"), {(1, 4), (1, 2)}),
        (_given("scale_value"), {(1, 4)}),
        (_given("round_fp8"), {(1, 4), (1, 2)}),
    ],
)
def test_only_blocks_of_requests_that_write_are_hit(
    given: dict[str, Any], expected: set[tuple[int, int]]
) -> None:
    runner, stack = _Runner(), UndoStack()
    before = [cache.clone() for cache in runner.kv_caches]
    worker_cache.harm(runner, given, stack)
    assert _changed(before, runner.kv_caches) == set()
    assert runner.step() == "done"
    assert _changed(before, runner.kv_caches) == expected
    once = [cache.clone() for cache in runner.kv_caches]
    runner.step()
    assert _changed(once, runner.kv_caches) == set(), "a second step must not add to it"
    stack.mend()
    assert "execute_model" not in vars(runner)
    assert runner.steps == 2


def test_one_value_is_scaled_and_a_swap_is_a_swap() -> None:
    runner = _Runner()
    before = runner.kv_caches[1].clone()
    worker_cache.harm(runner, _given("scale_value", factor=4.0), UndoStack())
    runner.step()
    differ = (runner.kv_caches[1] != before).nonzero()
    assert len(differ) == 1
    assert runner.kv_caches[1][4].view(-1)[5] == before[4].view(-1)[5] * 4
    runner = _Runner()
    worker_cache.harm(runner, _given("swap_blocks"), UndoStack())
    runner.step()
    assert torch.equal(runner.kv_caches[1][4], before[2])
    assert torch.equal(runner.kv_caches[1][2], before[4])


@pytest.mark.parametrize(
    ("how", "check"),
    [
        ("nan", lambda logits: logits.isnan().all()),
        ("constant", lambda logits: (logits.argmax(-1) == worker_logits.CONSTANT_TOKEN).all()),
        ("uniform", lambda logits: (logits == 0).all()),
    ],
)
def test_harmed_scores(how: str, check: Any) -> None:
    assert check(worker_logits.harmed_scores(torch.randn(3, 40), how))
    assert worker_logits.harmed_scores(None, how) is None


def test_harmed_choice() -> None:
    logits = torch.tensor([[1.0, 5.0, 3.0], [9.0, 2.0, 8.0]])
    maker = torch.Generator().manual_seed(0)
    second = worker_logits.harmed_choice(logits.clone(), "second", 1.0, maker)
    assert second.argmax(-1).tolist() == [2, 2]
    assert sorted(second[0].tolist()) == [1.0, 3.0, 5.0]
    dropped = worker_logits.harmed_choice(logits.clone(), "drop_top", 1.0, maker)
    assert dropped[0].tolist() == [1.0, float("-inf"), 3.0]
    untouched = worker_logits.harmed_choice(logits.clone(), "second", 0.0, maker)
    assert torch.equal(untouched, logits)
    with pytest.raises(ValueError, match="'melt'"):
        worker_logits.harmed_choice(logits, "melt", 1.0, maker)


def test_the_share_of_harmed_choices_is_kept() -> None:
    maker = torch.Generator().manual_seed(1)
    logits = torch.tensor([[2.0, 1.0]]).repeat(5000, 1)
    hit = worker_logits.harmed_choice(logits, "second", 0.1, maker).argmax(-1).sum().item()
    assert 400 < hit < 600


class _Model(torch.nn.Module):
    def compute_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * 2


def _engine() -> Any:
    sampler = SimpleNamespace(sample=lambda logits, metadata: (logits.argmax(-1), None))
    return SimpleNamespace(model=_Model(), sampler=sampler)


def test_a_fault_of_the_choice_leaves_reported_scores_alone() -> None:
    runner, stack = _engine(), UndoStack()
    hidden = torch.tensor([[1.0, 5.0, 3.0]])
    worker_logits.harm(runner, {"how": "second", "share": 1.0, "seed": 1}, stack)
    assert torch.equal(runner.model.compute_logits(hidden), hidden * 2)
    assert runner.sampler.sample(hidden * 2, None)[0].tolist() == [2]
    stack.mend()
    assert runner.sampler.sample(hidden * 2, None)[0].tolist() == [1]


def test_noise_stays_while_a_fault_comes_and_goes() -> None:
    runner, stacks = _engine(), UndoStacks()
    hidden = torch.ones(2, 8)
    worker_logits.jitter(runner.model, 1e-2, 3, stacks.of("jitter"))
    noisy = runner.model.compute_logits(hidden)
    assert 0 < (noisy - 2).abs().max() < 0.1
    worker_logits.harm(runner, {"how": "nan", "share": 1.0, "seed": 1}, stacks.of("logits"))
    assert runner.model.compute_logits(hidden).isnan().all()
    assert stacks.mend("logits") == 1
    assert not torch.equal(runner.model.compute_logits(hidden), hidden * 2)
    assert stacks.mend("all") == 1
    assert torch.equal(runner.model.compute_logits(hidden), hidden * 2)
    assert "compute_logits" not in vars(runner.model)


class _FakeWorker:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def call(self, method: str, *args: str) -> str:
        self.calls.append((method, args[0] if method == "fault_mend" else json.loads(args[0])))
        return "ok"


@pytest.mark.parametrize(
    ("change", "method", "part"),
    [
        (Cache("zero_block", 3), "fault_cache", "cache"),
        (Logits("nan"), "fault_logits", "logits"),
        (Rope(1e4), "fault_rope", "rope"),
        (Jitter(1e-3), "fault_jitter", "jitter"),
    ],
)
def test_changes_reach_the_worker_and_name_what_to_mend(
    change: Change, method: str, part: str
) -> None:
    worker = _FakeWorker()
    undo = change.apply(Target(worker=worker), 9)
    assert [call[0] for call in worker.calls] == [method]
    undo()
    assert worker.calls[-1] == ("fault_mend", part)


def test_nothing_is_nothing() -> None:
    worker = _FakeWorker()
    Nothing().apply(Target(worker=worker), 0)()
    assert worker.calls == []
