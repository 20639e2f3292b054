"""A random adapter of low rank over the attention, in PEFT's form, for a server that serves it by a name of its own."""

from __future__ import annotations

import json
from pathlib import Path

from bench.faults.weight_change import read_tensor
from bench.faults.weight_steps import chosen, low_rank, seed_of
from quality_lib.adapters.model.safetensors_files import tensors_of

ATTENTION = ("model.layers.*.self_attn.*_proj.weight",)
RANK = 8
SHARE = 0.05
"""Size of what is added against the tensor's own, by the Frobenius norm."""


def write_adapter(folder: Path, model: Path, seed: int) -> None:
    """Write an adapter over a model folder; what a server adds is what ``Step("adapter")`` merges.

    The folder appears whole or not at all.

    Raises:
        BadInput: the model has no attention of the names expected.
    """
    from safetensors.torch import save_file

    tensors = {}
    names = chosen(list(tensors_of(model)), ATTENTION)
    for name in names:
        values = read_tensor(model, name).float()
        up, down = low_rank(values, SHARE, RANK, seed_of(seed, "adapter", name))
        place = f"base_model.model.{name.removesuffix('.weight')}"
        tensors[f"{place}.lora_A.weight"] = down
        tensors[f"{place}.lora_B.weight"] = up
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        # The factor before the product is alpha / r.
        "lora_alpha": RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({name.split(".")[-2] for name in names}),
    }
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    save_file(tensors, part / "adapter_model.safetensors")
    (part / "adapter_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    part.rename(folder)
