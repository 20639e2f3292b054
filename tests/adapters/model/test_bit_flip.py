"""One bit is flipped, nothing else, and flipping it again undoes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from quality_lib.adapters.model.bit_flip import flip_bit
from quality_lib.errors import BadInput


def model(folder: Path) -> Path:
    tensors = {
        "a": np.arange(6, dtype=np.float16),
        "b": np.arange(12, dtype=np.float32).reshape(3, 4),
    }
    save_file(tensors, folder / "model.safetensors")
    return folder


@given(element=st.integers(0, 11), bit=st.integers(0, 31))
def test_exactly_that_bit_of_that_element_changes(
    tmp_path_factory: pytest.TempPathFactory, element: int, bit: int
) -> None:
    folder = model(tmp_path_factory.mktemp("m"))
    before = load_file(folder / "model.safetensors")
    flip = flip_bit(folder, "b", element, bit)
    after = load_file(folder / "model.safetensors")
    changed = before["b"].view(np.uint32).ravel() ^ after["b"].view(np.uint32).ravel()
    expected = np.zeros(12, dtype=np.uint32)
    expected[element] = 1 << bit
    assert (changed == expected).all()
    assert (before["a"] == after["a"]).all()
    assert flip_bit(folder, "b", element, bit).byte_offset == flip.byte_offset
    assert (load_file(folder / "model.safetensors")["b"] == before["b"]).all()


@pytest.mark.parametrize(("tensor", "element", "bit"), [("c", 0, 0), ("a", 6, 0), ("a", 0, 16)])
def test_what_is_not_there_is_refused_and_nothing_is_written(
    tmp_path: Path, tensor: str, element: int, bit: int
) -> None:
    file = model(tmp_path) / "model.safetensors"
    before = file.read_bytes()
    with pytest.raises(BadInput):
        flip_bit(tmp_path, tensor, element, bit)
    assert file.read_bytes() == before
