"""Weight faults: what they do to a tensor, and that their undo leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, load_file, save_file

from bench.faults import worker_weights
from bench.faults.adapter_folder import ATTENTION, RANK, SHARE, write_adapter
from bench.faults.fault import Fault, Target
from bench.faults.quantised import W8A8, quantised
from bench.faults.weight_change import Weights, changed_tensors, read_tensor
from bench.faults.weight_steps import Flip, Step, chosen, drawn_flips, flipped, harmed
from bench.faults.worker_undo import UndoStack, digest
from quality_lib.errors import BadInput

Q, K, V, OUT, DOWN = (
    f"model.layers.0.self_attn.{p}_proj.weight" if p != "down" else "model.layers.0.mlp.down_proj.weight"
    for p in ("q", "k", "v", "o", "down")
)  # fmt: skip
NORM, EMBEDDING = "model.norm.weight", "model.embed_tokens.weight"
SHAPES = {
    Q: (8, 32),
    K: (4, 32),
    V: (4, 32),
    OUT: (32, 8),
    DOWN: (32, 64),
    NORM: (32,),
    EMBEDDING: (20, 32),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    tensors = {name: torch.randn(shape).to(torch.bfloat16) for name, shape in SHAPES.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def _sum(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def _ones() -> torch.Tensor:
    return torch.ones(2, 32, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("bit", "expected"),
    [
        (15, -1.0),  # the sign
        (14, float("inf")),  # 0x3f80 ^ 0x4000 = 0x7f80
        (6, 1.5),  # the highest bit of the mantissa
        (0, 1.0078125),
    ],
)
def test_a_flip_turns_one_bit_of_one_element(bit: int, expected: float) -> None:
    found = flipped(_ones(), [Flip("t", 5, bit)]).float().flatten().tolist()
    assert found[5] == expected
    assert found[:5] + found[6:] == [1.0] * 63


def test_a_flip_twice_is_none() -> None:
    tensor = torch.randn(4, 4).to(torch.bfloat16)
    flips = [Flip("t", 3, bit) for bit in (0, 7, 15)]
    assert torch.equal(flipped(flipped(tensor, flips), flips), tensor)


def test_flips_are_drawn_by_size_and_never_twice() -> None:
    step = Step("flip", ("*",), bits=(0, 1), count=8)
    found = drawn_flips({"big": 3, "tiny": 5}, step, 1)
    assert len(set(found)) == 8
    assert found == drawn_flips({"big": 3, "tiny": 5}, step, 1)
    assert found != drawn_flips({"big": 3, "tiny": 5}, step, 2)
    many = drawn_flips({"big": 9000, "tiny": 1000}, Step("flip", ("*",), bits=(0,), count=500), 3)
    share = sum(flip.tensor == "big" for flip in many) / 500
    assert 0.84 < share < 0.96


@pytest.mark.parametrize(
    "step", [Step("flip", ("*",), count=1), Step("flip", ("*",), bits=(1,), count=0),
             Step("flip", ("*",), bits=(1,), count=99)]
)  # fmt: skip
def test_impossible_flips_are_refused(step: Step) -> None:
    with pytest.raises(BadInput):
        drawn_flips({"a": 4}, step, 0)


@pytest.mark.parametrize(
    ("op", "amount", "check"),
    [
        ("zero", 0.0, lambda new, old: not new.any()),
        ("scale", 2.0, lambda new, old: torch.equal(new, old * 2)),
        ("int8", 0.0, lambda new, old: 0 < (new - old).abs().max() <= old.abs().max() / 127),
        ("int4", 0.0, lambda new, old: old.abs().max() / 127 < (new - old).abs().max() <= old.abs().max() / 13),
        ("noise", 0.1, lambda new, old: 0.05 < (new - old).std() / old.std() < 0.15),
        ("prune_small", 0.25, lambda new, old: (new == 0).sum() == new.numel() // 4),
        ("prune_random", 0.5, lambda new, old: 0.35 < (new == 0).float().mean() < 0.65),
        ("adapter", 0.05, lambda new, old: 0.04 < (new - old).norm() / old.norm() < 0.06),
    ],
)  # fmt: skip
def test_operations(op: str, amount: float, check: Any) -> None:
    torch.manual_seed(1)
    tensor = torch.randn(16, 64)
    new = harmed(tensor, Step(op, ("*",), amount, count=4), "t", 7)
    assert check(new, tensor)
    assert torch.equal(new, harmed(tensor, Step(op, ("*",), amount, count=4), "t", 7))


def test_an_adapter_has_low_rank() -> None:
    tensor = torch.randn(16, 64)
    added = harmed(tensor, Step("adapter", ("*",), 0.05, count=3), "t", 7) - tensor
    assert torch.linalg.matrix_rank(added, atol=1e-4).item() == 3


def test_a_served_adapter_adds_what_the_fault_merges(folder: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "served" / "adapter-5"
    write_adapter(adapter, folder, 5)
    factors = load_file(adapter / "adapter_model.safetensors")
    told = json.loads((adapter / "adapter_config.json").read_text())
    assert sorted(told["target_modules"]) == ["k_proj", "o_proj", "q_proj", "v_proj"]
    assert told["lora_alpha"] == told["r"] == RANK  # nothing else is multiplied
    merged = dict(changed_tensors(folder, (Step("adapter", ATTENTION, SHARE, count=RANK),), 5))
    assert set(merged) == {Q, K, V, OUT}
    for name, value in merged.items():
        place = f"base_model.model.{name.removesuffix('.weight')}"
        up, down = factors.pop(f"{place}.lora_B.weight"), factors.pop(f"{place}.lora_A.weight")
        added = read_tensor(folder, name).float() + up @ down
        assert torch.equal(added.to(torch.bfloat16), value)
    assert not factors
    assert [path.name for path in adapter.parent.iterdir()] == ["adapter-5"]


def test_roundings_leave_vectors_alone() -> None:
    vector = torch.randn(32)
    for op in ("int8", "int4", "adapter"):
        assert torch.equal(harmed(vector, Step(op, ("*",), 0.1, count=2), "t", 0), vector)


def test_unknown_operations_and_patterns_are_refused() -> None:
    with pytest.raises(BadInput, match="no operation 'melt'"):
        harmed(_ones(), Step("melt", ("*",)), "t", 0)
    with pytest.raises(BadInput, match="no tensor"):
        chosen(["a", "b"], ("c*",))


@pytest.mark.parametrize(
    "steps",
    [
        (Step("flip", ("*_proj.weight",), bits=(14,), count=3),),
        (Step("zero", (DOWN,)),),
        (Step("int8", ("*_proj.weight",)), Step("noise", (NORM,), 0.5)),
    ],
)
def test_a_folder_is_harmed_and_mended_byte_for_byte(folder: Path, steps: tuple[Step, ...]) -> None:
    before = _sum(folder)
    fault = Fault(1, "f", "k", Weights(steps), seed=3)
    undo = fault.apply(Target(folder=folder))
    assert _sum(folder) != before
    undo()
    assert _sum(folder) == before
    undo()
    assert _sum(folder) == before


def test_steps_see_what_the_steps_before_left(folder: Path) -> None:
    steps = (Step("scale", (NORM,), 2.0), Step("scale", (NORM,), 3.0))
    ((name, tensor),) = changed_tensors(folder, steps, 0)
    assert name == NORM
    assert torch.allclose(tensor.float(), read_tensor(folder, NORM).float() * 6, rtol=0.02)


def test_another_folder_replaces_tensors(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "tuned"
    source.mkdir()
    save_file({NORM: torch.full((32,), 9.0).to(torch.bfloat16)}, source / "model.safetensors")
    undo = Weights((), str(source)).apply(Target(folder=folder), 0)
    assert read_tensor(folder, NORM).float().unique().tolist() == [9.0]
    undo()
    assert read_tensor(folder, NORM).float().unique().numel() > 1


def test_quantised_rows_are_the_nearest_of_255_values() -> None:
    weight = torch.tensor([[1.0, -0.5, 0.003], [0.0, 0.0, 0.0]], dtype=torch.bfloat16)
    integers, scale = quantised(weight)
    assert integers.dtype == torch.int8
    assert integers.tolist() == [[127, -64, 0], [0, 0, 0]]
    assert scale.shape == (2, 1)
    assert scale[0].item() == pytest.approx(1 / 127, rel=2**-8)


def test_an_eight_bit_checkpoint_is_written_and_taken_back(folder: Path) -> None:
    (folder / "config.json").write_text('{"x": 1}')
    healthy = {file.name: file.read_bytes() for file in folder.iterdir()}
    undo = Fault(5, "w8a8", "int8", W8A8()).apply(Target(folder=folder))
    config = json.loads((folder / "config.json").read_text())
    assert config["x"] == 1
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"
    seen = load_file(folder / "model.safetensors")
    assert {name for name, tensor in seen.items() if tensor.dtype == torch.int8} == {
        Q, K, V, OUT, DOWN
    }  # fmt: skip
    old = load(healthy["model.safetensors"])
    for name in (Q, DOWN):
        near = seen[name].float() * seen[f"{name}_scale"].float()
        # Half a step of rounding, and the scale's own rounding to bfloat16 over 127 steps.
        assert (near - old[name].float()).abs().max() < seen[f"{name}_scale"].float().max()
    assert torch.equal(seen[NORM], old[NORM])
    undo()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == healthy


def test_a_model_without_linear_layers_is_refused_and_left_alone(tmp_path: Path) -> None:
    save_file({NORM: torch.ones(4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadInput, match="no tensor is called"):
        W8A8().apply(Target(folder=tmp_path), 0)
    assert (tmp_path / "config.json").read_text() == "{}"


def test_a_step_survives_the_way_to_the_worker() -> None:
    step = Step("flip", ("a*", "b"), 0.5, (1, 2), 3)
    assert Step.from_json(json.loads(json.dumps(step.as_json()))) == step


class _Model(torch.nn.Module):
    """Laid out as vLLM does: fused projections, packed weights, a tied head with a packed copy of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = torch.nn.Module()
        layer, attention, mlp = torch.nn.Module(), torch.nn.Module(), torch.nn.Module()
        attention.qkv_proj = _packed_module(torch.cat([read_tensor(folder, n) for n in (Q, K, V)]))
        attention.o_proj = _packed_module(read_tensor(folder, OUT))
        mlp.down_proj = _packed_module(read_tensor(folder, DOWN))
        layer.self_attn, layer.mlp = attention, mlp
        self.model.layers = torch.nn.ModuleList([layer])
        self.model.norm = _plain_module(read_tensor(folder, NORM))
        padded = torch.cat((
            read_tensor(folder, EMBEDDING),
            torch.zeros(4, 32, dtype=torch.bfloat16),
        ))
        self.model.embed_tokens = _plain_module(padded)
        self.lm_head = _packed_module(read_tensor(folder, EMBEDDING))


def _pack(weight: torch.Tensor) -> Any:
    held = weight.clone()
    return lambda x, w, b: torch.nn.functional.linear(x, held.to(x.dtype), b)


def _packed_module(weight: torch.Tensor) -> Any:
    module: Any = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)
    module.cpu_linear = _pack(weight)
    return module


def _plain_module(weight: torch.Tensor) -> Any:
    module: Any = torch.nn.Module()
    module.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
    return module


def _weight_of(module: Any, columns: int) -> torch.Tensor:
    answer: torch.Tensor = module.cpu_linear(torch.eye(columns), None, None)
    return answer.T.to(torch.bfloat16)


def test_a_live_fused_layer_is_harmed_in_its_part_alone(folder: Path) -> None:
    model, stack = _Model(folder), UndoStack()
    fused = model.model.get_submodule("layers.0.self_attn.qkv_proj")
    before, linear = _weight_of(fused, 32), fused.cpu_linear
    worker_weights.harm(model, str(folder), [Step("zero", (K,))], 0, "", stack, _pack)
    after = _weight_of(fused, 32)
    assert torch.equal(after[:8], before[:8])
    assert not after[8:12].any()
    assert torch.equal(after[12:], before[12:])
    assert stack.mend() == 1
    assert fused.cpu_linear is linear


def test_a_live_embedding_takes_its_tied_head_along(folder: Path) -> None:
    model, stack = _Model(folder), UndoStack()
    table = model.model.embed_tokens.weight
    before, head = digest(table), model.lm_head.cpu_linear
    step = Step("scale", (EMBEDDING,), 2.0)
    assert worker_weights.harm(model, str(folder), [step], 0, "", stack, _pack) == [EMBEDDING]
    assert torch.equal(table[:20].float(), read_tensor(folder, EMBEDDING).float() * 2)
    assert not table[20:].any()
    assert torch.equal(_weight_of(model.lm_head, 32).float(), table[:20].float())
    stack.mend()
    assert digest(table) == before
    assert model.lm_head.cpu_linear is head


def test_live_and_file_faults_are_the_same_fault(folder: Path) -> None:
    model, steps = (
        _Model(folder),
        (Step("noise", (DOWN,), 0.3), Step("flip", (NORM,), bits=(6,), count=4)),
    )
    worker_weights.harm(model, str(folder), steps, 11, "", UndoStack(), _pack)
    Weights(steps).apply(Target(folder=folder), 11)
    assert torch.equal(model.model.norm.weight, read_tensor(folder, NORM))
    down = model.model.get_submodule("layers.0.mlp.down_proj")
    assert torch.equal(_weight_of(down, 64), read_tensor(folder, DOWN))


def test_an_undo_that_is_not_exact_is_told() -> None:
    """The kept copy is damaged meanwhile, as bad memory would do."""
    stack, tensor = UndoStack(), torch.ones(4)
    stack.overwrite(tensor, torch.zeros(4))
    for cell in stack._steps[0].__closure__ or ():
        if isinstance(cell.cell_contents, torch.Tensor) and cell.cell_contents is not tensor:
            cell.cell_contents[0] = 5.0
    with pytest.raises(RuntimeError, match="not what it was"):
        stack.mend()


def test_the_rope_table_is_overwritten_and_put_back() -> None:
    module: Any = torch.nn.Module()
    half = 4
    rates = 1.0 / 1e5 ** (torch.arange(half, dtype=torch.float) / half)
    angles = torch.outer(torch.arange(10, dtype=torch.float), rates)
    module.cos_sin_cache = torch.cat((angles.cos(), angles.sin()), dim=-1)
    before, stack = module.cos_sin_cache.clone(), UndoStack()
    same = {"theta": 1e5, "is_rounded": False}
    worker_weights.harm_rope(module, same, stack)
    assert torch.equal(module.cos_sin_cache, before)
    worker_weights.harm_rope(module, {"theta": 1e4, "is_rounded": False}, stack)
    assert not torch.allclose(module.cos_sin_cache, before)
    stack.mend()
    assert torch.equal(module.cos_sin_cache, before)
    with pytest.raises(RuntimeError, match="no table"):
        worker_weights.harm_rope(torch.nn.Module(), same, stack)
