"""Weights harmed in the memory of a running vLLM.

The CPU back-end packs the weight of a linear layer and drops the original (``serving/live_tensors.py`` says more).
A harmed layer therefore gets a new packed copy, made by vLLM's own function from the tensors in the model folder,
and the old copy is kept and put back as the same object. Everything else is overwritten where it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.exchanges.damage import FUSED
from bench.faults.weight_change import changed_tensors, read_tensor
from bench.faults.weight_steps import Step
from bench.faults.worker_undo import UndoStack

Pack = Callable[[Any], Any]
EMBEDDING, HEAD = "embed_tokens", "lm_head"


def harm(
    model: Any,
    folder: str,
    steps: Sequence[Step],
    seed: int,
    source: str,
    stack: UndoStack,
    pack: Pack | None = None,
) -> list[str]:
    """Apply the steps to a loaded model; return the names of the harmed tensors.

    ``pack`` makes the operation of a linear layer from its weight; by default as vLLM does.
    """
    place = Path(folder)
    by_module: dict[str, dict[str, Any]] = {}
    for name, tensor in changed_tensors(place, steps, seed, source):
        by_module.setdefault(module_of(name), {})[name] = tensor
    for module_name, tensors in by_module.items():
        _give(model, place, module_name, tensors, stack, pack or packed)
    return sorted(name for tensors in by_module.values() for name in tensors)


def module_of(name: str) -> str:
    """Return the module of vLLM that holds a tensor of the files: some are kept as one."""
    parent, _, short = name.removesuffix(".weight").rpartition(".")
    fused, _ = FUSED.get(short, (short, ()))
    return f"{parent}.{fused}"


def parts_of(module_name: str, tensors: dict[str, Any]) -> list[str]:
    """Return the files' names of everything in a module, in the order in which vLLM joins them."""
    parent, _, short = module_name.rpartition(".")
    for fused, parts in FUSED.values():
        if fused == short:
            return [f"{parent}.{part}.weight" for part in parts]
    return list(tensors)


def _give(
    model: Any,
    folder: Path,
    module_name: str,
    tensors: dict[str, Any],
    stack: UndoStack,
    pack: Pack,
) -> None:
    import torch

    module = model.get_submodule(module_name)
    names = parts_of(module_name, tensors)
    parts = [tensors[n] if n in tensors else read_tensor(folder, n) for n in names]
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    is_packed = hasattr(module, "cpu_linear")
    if EMBEDDING in module_name:
        _overwrite_rows(module.weight, whole, stack)
        head = getattr(model, HEAD, None)
        # A tied head has a packed copy of its own.
        if head is not None and "cpu_linear" in vars(head):
            stack.replace(head, "cpu_linear", pack(whole.to(module.weight.dtype)))
    elif is_packed and whole.dim() == 2:
        stack.replace(module, "cpu_linear", pack(whole.to(module.weight.dtype)))
    else:
        _overwrite_rows(module.weight, whole, stack)


def packed(weight: Any) -> Any:
    """Return a linear operation with this weight, packed as vLLM packs it on this processor."""
    import torch
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    holder: Any = torch.nn.Module()
    holder.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
    dispatch_cpu_unquantized_gemm(holder, remove_weight=True)
    linear, kept = holder.cpu_linear, holder.weight
    if not kept.numel():
        return linear
    return lambda x, weight, bias: linear(x, kept, bias)


def _overwrite_rows(parameter: Any, whole: Any, stack: UndoStack) -> None:
    """Overwrite the rows that the file has; vLLM pads an embedding below."""
    rows = parameter.data[: whole.shape[0]] if whole.dim() == 2 else parameter.data
    stack.overwrite(rows, whole)


def harm_rope(model: Any, given: dict[str, Any], stack: UndoStack) -> None:
    """Overwrite every table of rotary angles with that of another base.

    Raises:
        RuntimeError: the model has no such table.
    """
    import torch

    seen: set[int] = set()
    for module in model.modules():
        for name in ("cos_sin_cache", "cos_sin_cache_bf16"):
            table = getattr(module, name, None)
            if table is None or table.data_ptr() in seen:
                continue
            seen.add(table.data_ptr())
            half = table.shape[-1] // 2
            rates = 1.0 / given["theta"] ** (torch.arange(half, dtype=torch.float) / half)
            if given["is_rounded"]:
                rates = rates.to(torch.bfloat16).float()
            angles = torch.outer(torch.arange(table.shape[0], dtype=torch.float), rates)
            stack.overwrite(table, torch.cat((angles.cos(), angles.sin()), dim=-1))
    if not seen:
        raise RuntimeError("this model has no table of rotary angles")
