"""Damage a running vLLM server from inside, and mend it again: a ``--worker-extension-cls``.

On the CPU vLLM packs the weights of linear layers and drops the originals. A damaged layer is therefore given
weights that are read from the model folder again, harmed, and packed like the old ones. Normalisation weights,
the embedding table, the table of rotary angles and the KV cache are changed where they lie. Every method takes and
gives text, because vLLM's development route passes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FUSED = {
    "q_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "k_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "v_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
    "gate_proj": ("gate_up_proj", ("gate_proj", "up_proj")),
    "up_proj": ("gate_up_proj", ("gate_proj", "up_proj")),
}
"""Which tensors of the folder vLLM keeps as one, in which order."""

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
HEAD_ROWS = 64


class Damage:
    """Mixed into vLLM's worker; ``model_runner`` and ``vllm_config`` are the worker's own."""

    model_runner: Any
    vllm_config: Any

    def harm(self, steps: str) -> str:
        """Apply the harms of a fault, a JSON list; return what was touched."""
        touched = []
        for step in json.loads(steps):
            touched.append(self._harm_one(step))
        return ", ".join(touched)

    def mend(self) -> str:
        """Undo every harm, the last one first."""
        undo = self._undo()
        count = len(undo)
        while undo:
            undo.pop()()
        return str(count)

    def harm_cache(self, step: str) -> str:
        """Change the KV cache where it lies; blocks in use are hit like any other."""
        import torch

        given = json.loads(step)
        maker = torch.Generator().manual_seed(given.get("seed", 0))
        layers = given.get("layers")
        for number, cache in enumerate(self.model_runner.kv_caches):
            if layers is not None and number not in layers:
                continue
            flat = cache.view(-1) if cache.is_contiguous() else cache
            if given["how"] == "zero":
                flat.zero_()
            elif given["how"] == "scale":
                flat.mul_(given["by"])
            elif given["how"] == "roll":
                cache.copy_(torch.roll(cache, given["by"], dims=-1))
            else:
                spread = flat.float().std().item() or 1.0
                noise = torch.randn(flat.shape, generator=maker) * (spread * given["by"])
                flat.add_(noise.to(flat.dtype))
        return str(given["how"])

    def _undo(self) -> list[Callable[[], None]]:
        if not hasattr(self, "_harms_undone_by"):
            self._harms_undone_by: list[Callable[[], None]] = []
        return self._harms_undone_by

    def _harm_one(self, step: dict[str, Any]) -> str:
        if step["op"] == "rope":
            return self._harm_rope(step["theta"])
        name = step["tensor"]
        bad = harmed(self._read(name), step, self._read)
        if name == HEAD:
            self._give_weights(self._module("lm_head"), bad)
        elif name == EMBEDDING:
            self._overwrite(self._module("model.embed_tokens").weight, bad)
        elif name.endswith("norm.weight"):
            self._overwrite(self._module(name.removesuffix(".weight")).weight, bad)
        else:
            self._harm_linear(name, bad)
        return str(name)

    def _harm_linear(self, name: str, bad: Any) -> None:
        import torch

        parent, _, short = name.removesuffix(".weight").rpartition(".")
        fused, parts = FUSED.get(short, (short, (short,)))
        module = self._module(f"{parent}.{fused}")
        whole = [bad if p == short else self._read(f"{parent}.{p}.weight") for p in parts]
        self._give_weights(module, torch.cat(whole))

    def _harm_rope(self, theta: float) -> str:
        import torch

        for module in self.model_runner.model.modules():
            for name in ("cos_sin_cache", "cos_sin_cache_bf16"):
                cache = getattr(module, name, None)
                if cache is None:
                    continue
                half = cache.shape[-1] // 2
                rates = 1.0 / theta ** (torch.arange(half, dtype=torch.float) / half)
                angles = torch.outer(torch.arange(cache.shape[0], dtype=torch.float), rates)
                self._overwrite(cache, torch.cat((angles.cos(), angles.sin()), dim=-1))
        return "rope"

    def _overwrite(self, tensor: Any, new: Any) -> None:
        old = tensor.data.clone()
        tensor.data.copy_(new.to(tensor.dtype))
        self._undo().append(lambda: tensor.data.copy_(old))

    def _give_weights(self, module: Any, weights: Any) -> None:
        from vllm import _custom_ops as ops

        old = module.cpu_linear
        packed = ops.create_onednn_mm(weights.contiguous().t(), 32)
        module.cpu_linear = lambda x, weight, bias: ops.onednn_mm(packed, x, bias)
        self._undo().append(lambda: setattr(module, "cpu_linear", old))

    def _module(self, name: str) -> Any:
        return self.model_runner.model.get_submodule(name)

    def _read(self, name: str) -> Any:
        from safetensors import safe_open

        name = EMBEDDING if name == HEAD else name
        folder = Path(self.vllm_config.model_config.model)
        with safe_open(folder / "model.safetensors", framework="pt") as file:
            return file.get_tensor(name)


def harmed(tensor: Any, step: dict[str, Any], read: Callable[[str], Any]) -> Any:
    """Return the tensor as a step of a fault leaves it; ``read`` gives the whole ones by name."""
    import torch

    op, by = step["op"], step.get("by", 0.0)
    maker = torch.Generator().manual_seed(step.get("seed", 0))
    if op == "scale":
        return tensor * by
    if op == "nan":
        return torch.full_like(tensor, float("nan"))
    if op == "noise":
        noise = torch.randn(tensor.shape, generator=maker) * tensor.float().std().item() * by
        return (tensor.float() + noise).to(tensor.dtype)
    if op == "swap":
        return read(step["with"])
    if op == "roll":
        return torch.roll(tensor, int(by) * HEAD_ROWS, dims=0)
    if op == "shift_rows":
        return torch.roll(tensor, int(by), dims=0)
    if op == "flip":
        return _flipped(tensor, int(step["bit"]), int(step["elements"]), maker)
    raise ValueError(f"there is no harm called {op}")


def _flipped(tensor: Any, bit: int, elements: int, maker: Any) -> Any:
    import torch

    bits = tensor.contiguous().view(torch.int16).flatten().clone()
    places = torch.randint(0, bits.numel(), (elements,), generator=maker)
    mask = (1 << bit) - (1 << 16 if bit == 15 else 0)
    bits[places] ^= mask
    return bits.view(tensor.dtype).view(tensor.shape)
