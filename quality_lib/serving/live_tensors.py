"""Where the weights of a loaded model lie, and what of them can be read.

``named_parameters()`` is not enough. vLLM's CPU back-end packs the weight of a linear layer into the
layout its kernels want and leaves an empty parameter behind: the packed copy is held by a closure
(``layer.cpu_linear``), as a tensor or inside a native handler. Quantised layers and absorbed attention
weights are plain attributes. So modules are walked with everything they hold.

A native handler cannot be read, but it can be asked: the layer's own operation over the rows of an
identity matrix gives back every element it multiplies with, exactly, for ``1 · w + 0 + … = w``. (A zero
loses its sign on the way, and an infinity turns its column into NaN; neither hides a change of a value.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quality_lib.serving.tensor_checksum import byte_pieces

PARAMETER, BUFFER, PACKED, ATTRIBUTE = "parameter", "buffer", "packed", "attribute"
"""What a tensor is to its model. An ``attribute`` may be scratch space: it is shown, never judged."""

JUDGED = frozenset({PARAMETER, BUFFER, PACKED})
PROBE_OPERATIONS = 4_000_000_000
"""Multiplications and additions of one question to a handler: about 10 ms on one modern core."""
MIN_PROBE_ROWS = 32
PROBE_BYTES = 16 * 2**20
MAX_DEPTH = 4
MAX_ITEMS = 1024

_NOT_WEIGHTS = ("kv_cache", "workspace", "scratch")
_EMBEDDING, _HEAD = "VocabParallelEmbedding", "ParallelLMHead"
"""vLLM's classes, told by name: the walk works without vLLM."""
_TORCH_OWN = frozenset({"_parameters", "_buffers", "_modules"})


@dataclass(frozen=True)
class LiveTensor:
    """One piece of a model's memory, readable slice by slice."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    """Bytes."""
    pieces: Callable[[int], Iterator[Any]]
    """Gives byte tensors of at most so many bytes, in the logical order of the elements."""
    device: str = "cpu"


@dataclass(frozen=True)
class Unseen:
    """Something that is used and cannot be read."""

    name: str
    reason: str
    size: int | None = None
    """Bytes, where they can be told."""


@dataclass
class Found:
    """What a walk over a model has found."""

    tensors: list[LiveTensor] = field(default_factory=list)
    unseen: list[Unseen] = field(default_factory=list)
    tied: dict[str, str] = field(default_factory=dict)
    """Name → the name under which the same memory is counted."""
    _places: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _objects: set[int] = field(default_factory=set)

    def add_tensor(self, name: str, kind: str, tensor: Any) -> None:
        """Take a tensor, unless it is empty, without memory, or known under another name."""
        if tensor.device.type == "meta" or not tensor.numel():
            return
        if tensor.layout is not _strided():
            self.unseen.append(Unseen(name, f"its layout {tensor.layout} is not supported"))
            return
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if (first := self._places.setdefault(place, name)) != name:
            self.tied[name] = first
            return
        held = tensor.detach()
        self.tensors.append(
            LiveTensor(
                name,
                kind,
                str(tensor.dtype).removeprefix("torch."),
                tuple(tensor.shape),
                tensor.numel() * tensor.element_size(),
                lambda slice_bytes: byte_pieces(held, slice_bytes),
                tensor.device.type,
            )
        )

    def add_handler(self, name: str, module: Any, handler: Any, is_asked: bool) -> None:
        """Take a native handler; with ``is_asked`` false nobody knows how to ask it."""
        if id(handler) in self._objects:
            return
        self._objects.add(id(handler))
        dtype = getattr(getattr(module, "weight", None), "dtype", None)
        if not is_asked or dtype is None or not dtype.is_floating_point:
            size = handler.n * handler.k if handler.n > 0 else None
            self.unseen.append(Unseen(name, "a native handler holds it and cannot be asked", size))
            return
        self.tensors.append(
            LiveTensor(
                name,
                PACKED,
                str(dtype).removeprefix("torch."),
                (handler.k, handler.n),
                handler.k * handler.n * dtype.itemsize,
                lambda slice_bytes: ask_linear(
                    module.cpu_linear, handler.n, handler.k, dtype, slice_bytes
                ),
            )
        )


def find_live_tensors(models: Mapping[str, Any], leave_out: frozenset[int] = frozenset()) -> Found:
    """Walk models (prefix of their names → module) and return everything that they hold.

    ``leave_out``: addresses of memory that changes with every request (the KV cache).
    """
    found = Found()
    for prefix, model in models.items():
        registered = (
            (PARAMETER, model.named_parameters(remove_duplicate=False)),
            (BUFFER, model.named_buffers(remove_duplicate=False)),
        )
        for kind, tensors in registered:
            for name, tensor in tensors:
                for part, inner in _inner(prefix + name, tensor):
                    if not _is_left_out(part, inner, leave_out):
                        found.add_tensor(part, kind, inner)
        modules = list(model.named_modules())
        has_head = any(_HEAD in _class_names(module) for _, module in modules)
        for name, module in modules:
            unused = frozenset({"cpu_linear"} if has_head and _only_looks_up(module) else ())
            _walk_module(found, prefix + name, module, leave_out, unused)
    found.tensors.sort(key=lambda tensor: tensor.name)
    return found


def ask_linear(
    linear: Callable[..., Any], n: int, k: int, dtype: Any, slice_bytes: int
) -> Iterator[Any]:
    """Give the weight of a linear operation row by row: its answers to the unit vectors."""
    import torch

    rows = max(MIN_PROBE_ROWS, PROBE_OPERATIONS // max(1, 2 * n * k))
    rows = max(1, min(k, rows, max(1, PROBE_BYTES // max(1, n * dtype.itemsize))))
    for start in range(0, k, rows):
        count = min(rows, k - start)
        units = torch.zeros(count, k, dtype=dtype)
        units[torch.arange(count), torch.arange(start, start + count)] = 1
        answer = linear(units, None, None)
        yield from byte_pieces(answer, slice_bytes)


def _only_looks_up(module: Any) -> bool:
    """Return whether a module is an embedding: vLLM packs its weight too, for a head without its own."""
    names = _class_names(module)
    return _EMBEDDING in names and _HEAD not in names


def _class_names(module: Any) -> frozenset[str]:
    return frozenset(kind.__name__ for kind in type(module).__mro__)


def _walk_module(
    found: Found, name: str, module: Any, leave_out: frozenset[int], unused: frozenset[str]
) -> None:
    known = len(found.tensors) + len(found.unseen) + len(found.tied)
    for key, value in vars(module).items():
        if key not in _TORCH_OWN and key not in unused:
            _walk(found, f"{name}.{key}".lstrip("."), module, value, leave_out, MAX_DEPTH)
    weight: Any = getattr(module, "weight", None)
    is_emptied = _is_tensor(weight) and weight.dim() == 1 and not weight.numel()
    if is_emptied and known == len(found.tensors) + len(found.unseen) + len(found.tied):
        found.unseen.append(
            Unseen(f"{name}.weight", "emptied after loading, its copy was not found")
        )


def _walk(
    found: Found, name: str, module: Any, value: Any, leave_out: frozenset[int], depth: int
) -> None:
    """Look at one thing that a module holds, and at what that holds."""
    if _is_tensor(value):
        for part, inner in _inner(name, value):
            if not _is_left_out(part, inner, leave_out):
                found.add_tensor(part, _kind(part), inner)
        return
    if depth == 0 or _is_module(value) or id(value) in found._objects:
        return
    if hasattr(value, "handler_tensor"):
        found.add_handler(name, module, value, ".cpu_linear." in name)
        return
    for key, inner in _held_by(value):
        _walk(found, f"{name}.{key}", module, inner, leave_out, depth - 1)


def _held_by(value: Any) -> Iterator[tuple[str, Any]]:
    """Give what a container, a function or an object of vLLM holds."""
    if isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value[:MAX_ITEMS]))
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in list(value.items())[:MAX_ITEMS])
    elif getattr(value, "__closure__", None):
        names = value.__code__.co_freevars
        for key, cell in zip(names, value.__closure__, strict=True):
            try:
                yield key, cell.cell_contents
            except ValueError:  # a variable that was never set
                continue
    elif type(value).__module__.startswith("vllm.model_executor") and hasattr(value, "__dict__"):
        yield from vars(value).items()


def _inner(name: str, tensor: Any) -> Iterator[tuple[str, Any]]:
    """Give the tensors inside a wrapper (quantised types keep data and scales apart), else itself."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    partitions = getattr(tensor, "partitions", None)
    if isinstance(partitions, dict) and partitions:
        for key, part in partitions.items():
            yield from _inner(f"{name}.{key}", part)
    elif flatten is not None:
        for attribute in flatten()[0]:
            yield from _inner(f"{name}.{attribute}", getattr(tensor, attribute))
    else:
        yield name, tensor


def _kind(name: str) -> str:
    last = name.rpartition(".")[2]
    is_weight = "weight" in last or last.startswith("W_") or ".cpu_linear." in name
    return PACKED if is_weight else ATTRIBUTE


def _is_left_out(name: str, tensor: Any, leave_out: frozenset[int]) -> bool:
    return any(word in name for word in _NOT_WEIGHTS) or tensor.data_ptr() in leave_out


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def _strided() -> Any:
    import torch

    return torch.strided
