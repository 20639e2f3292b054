"""A checkpoint in vLLM's own eight-bit format in place of the healthy one: other kernels, activations rounded too."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults.fault import Target, Undo, Where
from bench.faults.folder_changes import rewrite_file
from bench.faults.weight_change import read_tensor
from bench.faults.weight_steps import INT8_LEVELS, chosen, in_steps
from quality_lib.adapters.model.safetensors_files import tensors_of

LINEAR = ("model.layers.*_proj.weight",)
WEIGHTS = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
ACTIVATIONS = {**WEIGHTS, "strategy": "token", "dynamic": True}
SCHEME = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": ACTIVATIONS}
    },
    "ignore": ["lm_head"],
}
"""The fields of ``quantization_config`` that vLLM reads of a W8A8 checkpoint of the compressed-tensors format."""


@dataclass(frozen=True)
class W8A8:
    """Linear layers as 8-bit integers with a scale for each output channel; activations are rounded per token."""

    @property
    def places(self) -> tuple[Where, ...]:
        """In the folder: vLLM lays such layers out in another way when it loads them."""
        return (Where.FOLDER,)

    def apply(self, target: Target, seed: int) -> Undo:
        """Replace weights and configuration.

        Raises:
            BadInput: the folder has no linear layers of the names expected.
        """
        folder = target.folder
        assert folder is not None
        undo_weights = _replace_weights(folder)
        undo_config = rewrite_file(folder / "config.json", _with_scheme)

        def undo() -> None:
            undo_config()
            undo_weights()

        return undo


def quantised(weight: Any) -> tuple[Any, Any]:
    """Return a matrix as int8 of the same shape and a scale of shape (rows, 1): rounding to nearest, symmetric."""
    import torch

    steps, scale = in_steps(weight.float(), INT8_LEVELS)
    return steps.to(torch.int8), scale.to(weight.dtype)


def _with_scheme(text: str) -> str:
    return json.dumps({**json.loads(text), "quantization_config": SCHEME}, indent=2)


def _replace_weights(folder: Path) -> Undo:
    from safetensors.torch import save_file

    places = tensors_of(folder)
    linear = set(chosen(list(places), LINEAR))
    kept = []
    for file in sorted({place.file for place in places.values()}):
        tensors: dict[str, Any] = {}
        for name in sorted(name for name, place in places.items() if place.file == file):
            tensor = read_tensor(folder, name)
            if name in linear:
                tensors[name], tensors[f"{name}_scale"] = quantised(tensor)
            else:
                tensors[name] = tensor
        # A hidden link keeps the healthy bytes, so that undoing needs no memory for them.
        healthy, new = file.with_name(f".{file.name}.healthy"), file.with_name(f".{file.name}.new")
        save_file(tensors, new, metadata={"format": "pt"})
        os.link(file, healthy)
        new.replace(file)
        kept.append((healthy, file))

    def undo() -> None:
        for healthy, file in kept:
            healthy.replace(file)

    return undo
