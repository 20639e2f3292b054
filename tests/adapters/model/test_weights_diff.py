from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from quality_lib.adapters.model.safetensors_files import tensors_of
from quality_lib.adapters.model.weights_diff import _float8_table, _numbers, diff_folders
from quality_lib.errors import BadInput

SMALL = 64 * 4096
"""``max_bytes`` that makes the smallest chunks, so that tensors span several."""


def model(folder: Path, **tensors: torch.Tensor) -> Path:
    folder.mkdir(parents=True)
    # safetensors refuses tensors that share memory
    own = {name: tensor.clone() for name, tensor in tensors.items()}
    save_file(own, folder / "model.safetensors")
    return folder


def pair(tmp_path: Path, a: torch.Tensor, b: torch.Tensor) -> tuple[Path, Path]:
    return model(tmp_path / "a", w=a), model(tmp_path / "b", w=b)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int8,
        torch.int64,
    ],
)
def test_the_numbers_are_those_of_torch(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    a = (torch.randn(7000) * 20).to(dtype)
    b = a.clone()
    b[5], b[6900] = torch.tensor(3.0).to(dtype), torch.tensor(-3.0).to(dtype)
    (found,) = diff_folders(*pair(tmp_path, a, b), max_bytes=SMALL).different
    x, y = a.double(), b.double()
    assert found.elements == 7000
    assert found.changed_elements == int(
        (a.view(torch.uint8) != b.view(torch.uint8)).reshape(7000, -1).any(1).sum()
    )
    assert found.relative_l2 == pytest.approx(float((x - y).norm() / x.norm()), rel=1e-9)
    assert found.max_abs == pytest.approx(float((x - y).abs().max()))


@pytest.mark.parametrize(
    ("name", "dtype"), [("F8_E4M3", torch.float8_e4m3fn), ("F8_E5M2", torch.float8_e5m2)]
)
def test_every_code_of_the_8_bit_floats(name: str, dtype: torch.dtype) -> None:
    expected = torch.arange(256).to(torch.uint8).view(dtype).float().numpy()
    np.testing.assert_array_equal(_float8_table(name), expected)


def test_every_code_of_bfloat16() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(codes.view(np.int16)).view(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(_numbers("BF16", memoryview(codes.tobytes())), expected)


@settings(max_examples=40)
@given(st.integers(0, 9999), st.integers(0, 15))
def test_any_flipped_bit_is_found(
    tmp_path_factory: pytest.TempPathFactory, element: int, bit: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("flip")
    a = torch.linspace(-1, 1, 10_000).to(torch.bfloat16)
    b = a.clone()
    b.view(torch.int16)[element] ^= torch.tensor(1 << bit).to(torch.int32).to(torch.int16)
    (found,) = diff_folders(*pair(tmp_path, a, b), max_bytes=SMALL).different
    assert (found.name, found.changed_elements) == ("w", 1)
    shutil.rmtree(tmp_path)


def test_equal_folders_are_the_same(tmp_path: Path) -> None:
    a, b = pair(tmp_path, torch.ones(10), torch.ones(10))
    diff = diff_folders(a, b)
    assert (diff.is_same, diff.equal, diff.different) == (True, 1, ())


def test_a_tensor_that_was_not_finite_before(tmp_path: Path) -> None:
    a = torch.tensor([math.nan, math.inf, 1.0, 2.0])
    b = torch.tensor([math.nan, math.inf, 1.0, 3.0])
    (found,) = diff_folders(*pair(tmp_path, a, b)).different
    assert found.relative_l2 == pytest.approx(1 / math.sqrt(5))
    assert found.non_finite == 0


def test_a_new_infinity_is_an_infinite_change(tmp_path: Path) -> None:
    (found,) = diff_folders(
        *pair(tmp_path, torch.ones(3), torch.tensor([1, math.inf, 1]))
    ).different
    assert (found.non_finite, found.relative_l2, found.max_abs) == (1, math.inf, math.inf)


def test_what_cannot_be_compared_is_listed(tmp_path: Path) -> None:
    one = torch.ones(2, 3)
    a = model(tmp_path / "a", gone=one, same=one, shaped=one, typed=one, worse=one)
    b = model(
        tmp_path / "b",
        new=one,
        same=one,
        shaped=torch.ones(3, 2),
        typed=one.half(),
        worse=one * 2,
    )
    diff = diff_folders(a, b)
    assert diff.equal == 1
    assert [(d.name, d.status) for d in diff.different] == [
        ("worse", "changed"),
        ("gone", "missing"),
        ("new", "extra"),
        ("shaped", "shape"),
        ("typed", "dtype"),
    ]


def test_the_largest_change_comes_first(tmp_path: Path) -> None:
    one = torch.ones(4)
    a = model(tmp_path / "a", x=one, y=one, z=one)
    b = model(tmp_path / "b", x=one * 1.1, y=one * 9, z=one * 2)
    assert [d.name for d in diff_folders(a, b).different] == ["y", "z", "x"]


def test_shards_are_found_by_the_index_and_may_be_cut_differently(tmp_path: Path) -> None:
    x, y = torch.arange(9.0), torch.arange(5.0)
    a = model(tmp_path / "a", x=x, y=y)
    b = tmp_path / "b"
    b.mkdir()
    save_file({"x": x}, b / "m-1.safetensors")
    save_file({"y": y}, b / "m-2.safetensors")
    save_file({"stray": y}, b / "unlisted.safetensors")
    index = {"weight_map": {"x": "m-1.safetensors", "y": "m-2.safetensors"}}
    (b / "model.safetensors.index.json").write_text(json.dumps(index))
    diff = diff_folders(a, b)
    assert (diff.equal, diff.different) == (2, ())
    assert diff.other_files == ("model.safetensors.index.json",)


def test_other_files_that_differ_are_named(tmp_path: Path) -> None:
    a, b = pair(tmp_path, torch.ones(1), torch.ones(1))
    (a / "config.json").write_text("{}")
    (b / "config.json").write_text("[]")
    diff = diff_folders(a, b)
    assert (diff.is_same, diff.other_files) == (False, ("config.json",))


def test_progress_adds_up(tmp_path: Path) -> None:
    a, b = pair(tmp_path, torch.ones(5000), torch.ones(5000))
    seen: list[int] = []
    diff_folders(a, b, lambda count, total: seen.append(count), max_bytes=SMALL)
    assert sum(seen) == 20_000


def test_an_unknown_type_is_compared_by_bytes(tmp_path: Path) -> None:
    for name, last in (("a", 1), ("b", 2)):
        header = json.dumps({"w": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}).encode()
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(
            len(header).to_bytes(8, "little") + header + bytes([0, last])
        )
    (found,) = diff_folders(tmp_path / "a", tmp_path / "b").different
    assert (found.changed_elements, found.relative_l2) == (1, None)


def _file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


W = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the header should have"),
        (b"abc", "the header should have"),
        (_file({}, length=1 << 40), "the header should have"),
        (_file(b"not json"), "no JSON"),
        (_file(b"\xff\xfe"), "no JSON"),
        (_file([]), "no JSON object"),
        (_file({"w": {}}), "entry of tensor 'w' is incomplete"),
        (_file({"w": W | {"data_offsets": [0]}}), "incomplete"),
        (_file({"w": W | {"data_offsets": [-8, 0]}}), "impossible numbers"),
        (_file({"w": W | {"shape": [-2]}}), "impossible numbers"),
        (_file({"w": W}, b"1234567"), "tensor 'w' ends 1 bytes after the file"),
        (_file({"w": W | {"shape": [3]}}, b"12345678"), "its shape needs others"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(BadInput, match=told) as caught:
        tensors_of(tmp_path)
    assert caught.value.file == str(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("{", "no index of shards"),
        ("{}", "no index of shards"),
        ('{"weight_map": {"w": "../w.safetensors"}}', "outside the folder"),
        ('{"weight_map": {"w": "gone.safetensors"}}', "gone.safetensors: is missing"),
        ('{"weight_map": {"v": "model.safetensors"}}', "tensor 'v' is not in model.safetensors"),
    ],
)
def test_a_bad_index_is_named(tmp_path: Path, index: str, told: str) -> None:
    folder = model(tmp_path / "m", w=torch.ones(1))
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BadInput, match=told):
        tensors_of(folder)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", w=torch.ones(1))
    shutil.copy(folder / "model.safetensors", folder / "copy.safetensors")
    with pytest.raises(BadInput, match=r"tensor 'w' is in copy.safetensors too"):
        tensors_of(folder)


def test_a_folder_without_tensors(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no"):
        tensors_of(tmp_path)
