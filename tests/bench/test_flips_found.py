"""The bench of flipped bits against a small stand-in server: counts, resumes, and believes no server that stays harmed."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from bench.faults.remote import NotMended
from bench.flips_found import JOURNAL, Drawn, Outcome, drawn, fault_of, main, result_of
from bench.run_all import BENCHES
from quality_lib.errors import BadInput
from tests.bench.stand_in_vllm import StandIn, served

SHAPES = {
    "model.layers.0.self_attn.q_proj.weight": (8, 32),
    "model.layers.0.mlp.down_proj.weight": (32, 64),
    "model.embed_tokens.weight": (20, 32),
    "model.norm.weight": (32,),
}


class Fingerprinted(StandIn):
    """Names the family of the tensor that was flipped last, unless it is ``blind`` to that family."""

    def __init__(self) -> None:
        super().__init__()
        self.blind = ""
        self.harmed = ""
        self.dies_after = 10_000

    def rpc(self, method: str, args: list[str]) -> str:
        if method == "fault_weights":
            ((pattern, *_),) = [step["tensors"] for step in json.loads(args[0])["steps"]]
            self.harmed = pattern
            self.dies_after -= 1
            self.dies_of_harm = self.dies_after < 0
        return super().rpc(method, args)

    def weights(self) -> dict[str, Any]:
        told = super().weights()
        if self.blind and self.blind in self.harmed:
            return {**told, "changed_tensors": 0, "changed": []}
        return told


@pytest.fixture
def stand_in() -> Fingerprinted:
    return Fingerprinted()


@pytest.fixture
def endpoint(stand_in: Fingerprinted) -> Generator[str]:
    with served(stand_in) as address:
        yield address


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = {name: torch.randn(shape).to(torch.bfloat16) for name, shape in SHAPES.items()}
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def flip(endpoint: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the bench; return its exit code, its result, and what it said."""

    def run(flips: int, *more: str) -> tuple[int, dict[str, Any], str]:
        out = tmp_path / "out" / "result.json"
        out.unlink(missing_ok=True)
        code = 0
        try:
            main([endpoint, "--model", str(model), "--work", str(tmp_path / "work"),
                  "--flips", str(flips), "--out", str(out), *more])  # fmt: skip
        except SystemExit as ended:
            code = int(ended.code or 0)
        result = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        return code, result, capsys.readouterr().err

    return run


def test_every_flip_is_made_read_and_taken_back(
    flip: Any, stand_in: Fingerprinted, model: Path
) -> None:
    before = (model / "model.safetensors").read_bytes()
    code, result, said = flip(8)
    assert code == 0
    assert stand_in.calls == ["+weights", "-weights"] * 8
    assert (result["wanted"], result["flips"], result["mended"], result["is_met"]) == (
        8,
        8,
        8,
        True,
    )
    assert result["found"] == {"hits": 8, "of": 8, "share": 1.0, "interval": [0.6756, 1.0]}
    # The stand-in always names the last norm, which two of the eight flips hit.
    assert result["named_of_found"]["hits"] == 2
    assert {name: told["of"] for name, told in result["by_family"].items()} == {
        "attention": 2, "mlp": 2, "embedding": 2, "norm": 2,
    }  # fmt: skip
    assert sum(told["of"] for told in result["by_bit"].values()) == 8
    assert said.count("found in") == 8
    assert "min left" in said
    assert (model / "model.safetensors").read_bytes() == before


def test_what_is_missed_is_named(flip: Any, stand_in: Fingerprinted) -> None:
    stand_in.blind = "mlp"
    code, result, said = flip(8)
    assert code == 0
    assert (result["found"]["hits"], result["is_met"]) == (6, False)
    assert result["missed_tensors"] == {"model.layers.0.mlp.down_proj.weight": 2}
    assert {row["number"] for row in result["missed"]} == {1, 5}
    assert said.count("MISSED") == 2


def test_a_killed_bench_goes_on_where_it_was(
    flip: Any, stand_in: Fingerprinted, tmp_path: Path
) -> None:
    stand_in.dies_after = 3
    assert flip(6)[0] == 3
    journal = tmp_path / "work" / JOURNAL
    assert journal.read_bytes().count(b"\n") == 3
    with journal.open("ab") as file:
        file.write(b'{"flip": {"number"')
    stand_in.dies_after, stand_in.is_dead, stand_in.shift = 10_000, False, 0.0
    stand_in.calls.clear()
    code, result, _ = flip(6)
    assert (code, result["flips"]) == (0, 6)
    assert stand_in.calls == ["+weights", "-weights"] * 3
    stand_in.calls.clear()
    assert flip(4)[1]["flips"] == 4, "fewer than were made are counted without asking anybody"
    assert stand_in.calls == []


def test_flips_of_another_seed_or_model_are_not_mixed(
    flip: Any, stand_in: Fingerprinted, model: Path
) -> None:
    assert flip(2)[0] == 0
    code, _, said = flip(4, "--seed", "2")
    assert code == 2
    assert f"{JOURNAL}:1" in said
    save_file(
        {name: torch.zeros(shape).to(torch.bfloat16) for name, shape in SHAPES.items()},
        model / "model.safetensors",
    )
    assert flip(4)[0] == 2
    assert len(stand_in.calls) == 4


def test_a_flip_that_stays_is_not_counted(
    flip: Any, stand_in: Fingerprinted, tmp_path: Path
) -> None:
    stand_in.heals = False
    code, result, said = flip(3)
    assert (code, result) == (NotMended.exit_code, {})
    assert "undo was not exact" in said
    assert (tmp_path / "work" / JOURNAL).read_bytes() == b""
    code, _, said = flip(3)
    assert code == 3
    assert "changed before any flip" in said


def test_draws_are_the_same_each_time_and_tell_both_values(model: Path) -> None:
    flips = drawn(model, 64, 1)
    assert flips == drawn(model, 64, 1)
    assert flips[:16] == drawn(model, 16, 1)
    assert flips != drawn(model, 64, 2)
    assert {flip.bit for flip in flips} == set(range(16))
    weights = {name: tensor.float().flatten() for name, tensor in tensors_in(model).items()}
    for flip in flips:
        assert float(flip.before) == weights[flip.tensor][flip.element]
        assert flip.changes_value


def tensors_in(model: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = load_file(model / "model.safetensors")
    return tensors


def test_the_told_flip_is_the_one_that_the_worker_makes(model: Path) -> None:
    from bench.faults.weight_change import Weights, changed_tensors

    old = tensors_in(model)
    for flip in drawn(model, 12, 1):
        fault = fault_of(flip.number, 1)
        assert isinstance(fault.change, Weights)
        ((name, new),) = changed_tensors(model, fault.change.steps, fault.seed)
        assert name == flip.tensor
        moved = (new.view(torch.int16) != old[name].view(torch.int16)).flatten().nonzero()
        assert moved.flatten().tolist() == [flip.element]
        assert str(new.float().flatten()[flip.element].item()) == flip.after


@pytest.mark.parametrize(
    ("before", "after", "differs"), [("0.0", "-0.0", False), ("1.0", "inf", True)]
)
def test_a_zero_with_another_sign_is_no_other_value(before: str, after: str, differs: bool) -> None:
    flip = Drawn(0, "mlp", "model.layers.0.mlp.down_proj.weight", 3, 15, before, after)
    assert flip.changes_value is differs
    result = result_of([flip], [Outcome(flip, False, (), 0.1, 0.2)])
    assert result["found"]["of"] == 1
    assert result["found_of_changed_values"]["of"] == int(differs)


def test_other_numbers_than_of_16_bits_are_refused(tmp_path: Path) -> None:
    save_file({name: torch.zeros(shape) for name, shape in SHAPES.items()},
              tmp_path / "model.safetensors")  # fmt: skip
    with pytest.raises(BadInput, match="F32"):
        drawn(tmp_path, 1, 1)


def test_the_bench_is_one_of_all() -> None:
    assert BENCHES["flips_found"][0] == "--out"
