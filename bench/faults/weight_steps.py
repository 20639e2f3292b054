"""What can happen to one tensor of a model: pure functions from a tensor to the harmed one."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quality_lib.errors import BadInput

SIGN_BIT = 15
INT8_LEVELS = 127
"""On each side of zero, symmetric."""
GROUP = 32
"""Columns that share a scale in four-bit rounding, as in the usual 4-bit formats."""


@dataclass(frozen=True)
class Step:
    """One operation on every tensor whose name fits one of the patterns."""

    op: str
    tensors: tuple[str, ...]
    """Shell patterns on the names in the safetensors files."""
    amount: float = 0.0
    """What it means depends on the operation: a factor, a share, a size relative to the tensor's spread."""
    bits: tuple[int, ...] = ()
    """Of ``flip``: one of these is drawn each time; 14 is the highest exponent bit of bfloat16."""
    count: int = 0
    """Of ``flip``: how many, over all tensors together, drawn by element. Of ``adapter``: the rank."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Step:
        """Read what ``as_json`` wrote."""
        return cls(
            told["op"],
            tuple(told["tensors"]),
            told["amount"],
            tuple(told["bits"]),
            told["count"],
        )


@dataclass(frozen=True)
class Flip:
    """One bit of one element."""

    tensor: str
    element: int
    bit: int


def chosen(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that fit, in the order of the alphabet.

    Raises:
        BadInput: none fits: a fault that touches nothing must not pass for one that goes unnoticed.
    """
    found = sorted(n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns))
    if not found:
        raise BadInput(f"no tensor is called {' or '.join(patterns)}")
    return found


def seed_of(seed: int, *parts: str) -> int:
    """Return a seed for a part of a fault: other names give independent draws."""
    told = "/".join((str(seed), *parts)).encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:6], "big")


def drawn_flips(sizes: dict[str, int], step: Step, seed: int) -> list[Flip]:
    """Draw the bits of a ``flip`` step, each element of the fitting tensors alike.

    ``sizes``: elements by name. The same bit is never drawn twice, because that would undo it.
    """
    import random

    names = chosen(list(sizes), step.tensors)
    whole = sum(sizes[name] for name in names)
    if not step.bits or not 0 < step.count <= whole:
        raise BadInput(f"{step.count} flips of bits {step.bits} cannot be drawn")
    draws = random.Random(seed_of(seed, "flip"))
    found: dict[Flip, None] = {}
    while len(found) < step.count:
        at, bit = draws.randrange(whole), draws.choice(step.bits)
        for name in names:
            if at < sizes[name]:
                found[Flip(name, at, bit)] = None
                break
            at -= sizes[name]
    return list(found)


def flipped(tensor: Any, flips: Sequence[Flip]) -> Any:
    """Return a 16-bit tensor with some bits turned over."""
    import torch

    bits = tensor.contiguous().view(torch.int16).flatten().clone()
    for flip in flips:
        bits[flip.element] ^= (1 << flip.bit) - (1 << 16 if flip.bit == SIGN_BIT else 0)
    return bits.view(tensor.dtype).view(tensor.shape)


def harmed(tensor: Any, step: Step, name: str, seed: int) -> Any:
    """Return the tensor as a step other than ``flip`` leaves it; vectors are left out by roundings.

    Raises:
        BadInput: there is no such operation.
    """
    act = OPERATIONS.get(step.op)
    if act is None:
        raise BadInput(f"there is no operation '{step.op}'; there are {', '.join(OPERATIONS)}")
    return act(tensor, step, seed_of(seed, step.op, name)).to(tensor.dtype)


def _zero(tensor: Any, step: Step, seed: int) -> Any:
    return tensor * 0


def _scale(tensor: Any, step: Step, seed: int) -> Any:
    return tensor.float() * step.amount


def _round_rows(tensor: Any, step: Step, seed: int) -> Any:
    """Round to 8 bits with one scale for each output channel."""
    return _rounded(tensor.float(), INT8_LEVELS) if tensor.dim() == 2 else tensor


def _round_groups(tensor: Any, step: Step, seed: int) -> Any:
    """Round to 4 bits with one scale for each group of columns."""
    if tensor.dim() != 2 or tensor.shape[1] % GROUP:
        return tensor
    groups = tensor.float().view(tensor.shape[0], -1, GROUP)
    return _rounded(groups, 7).view(tensor.shape)


def _rounded(values: Any, levels: int) -> Any:
    steps, scale = in_steps(values, levels)
    return steps * scale


def in_steps(values: Any, levels: int) -> tuple[Any, Any]:
    """Round along the last axis to whole steps of -levels to levels; returns steps and one scale a row (..., 1)."""
    scale = values.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12) / levels
    return (values / scale).round().clamp(-levels, levels), scale


def _noise(tensor: Any, step: Step, seed: int) -> Any:
    import torch

    maker = torch.Generator().manual_seed(seed)
    values = tensor.float()
    spread = values.std() if values.numel() > 1 else values.abs().max()
    return values + torch.randn(tensor.shape, generator=maker) * spread * step.amount


def _prune_small(tensor: Any, step: Step, seed: int) -> Any:
    values = tensor.float()
    count = int(values.numel() * step.amount)
    if not count:
        return values
    limit = values.abs().flatten().kthvalue(count).values
    return values * (values.abs() > limit)


def _prune_random(tensor: Any, step: Step, seed: int) -> Any:
    import torch

    maker = torch.Generator().manual_seed(seed)
    return tensor.float() * (torch.rand(tensor.shape, generator=maker) >= step.amount)


def _adapter(tensor: Any, step: Step, seed: int) -> Any:
    """Merge a random adapter of low rank; ``amount`` is its size against the tensor's own."""
    if tensor.dim() != 2:
        return tensor
    values = tensor.float()
    up, down = low_rank(values, step.amount, max(1, step.count), seed)
    return values + up @ down


def low_rank(values: Any, share: float, rank: int, seed: int) -> tuple[Any, Any]:
    """Draw two factors, of shapes (rows, rank) and (rank, columns), for a matrix of shape (rows, columns).

    The Frobenius norm of their product is ``share`` of the matrix's own.
    """
    import torch

    maker = torch.Generator().manual_seed(seed)
    down = torch.randn(rank, values.shape[1], generator=maker)
    up = torch.randn(values.shape[0], rank, generator=maker)
    return up * (share * values.norm() / (up @ down).norm()), down


OPERATIONS: dict[str, Callable[[Any, Step, int], Any]] = {
    "zero": _zero,
    "scale": _scale,
    "int8": _round_rows,
    "int4": _round_groups,
    "noise": _noise,
    "prune_small": _prune_small,
    "prune_random": _prune_random,
    "adapter": _adapter,
}
