"""The live-weights fingerprint inside a vLLM worker (requirement G6.2).

Loaded with vLLM's own ``--worker-extension-cls quality_lib.serving.live_weights_worker.LiveWeights``.
A reading is many short calls, so that running requests wait between two steps of the engine and
never longer than one call. The first reading is kept: later ones are compared with it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quality_lib.serving.live_fingerprint import compare, layout_of, root_of, tensor_line
from quality_lib.serving.live_tensors import Found, LiveTensor, find_live_tensors
from quality_lib.serving.tensor_checksum import DEVICE_SLICE, HOST_SLICE, hash_pieces

MAX_READINGS = 4
"""Readings that several API servers may have open at a time; the oldest gives way."""


@dataclass
class _Reading:
    found: Found
    steps: Generator[int]
    sums: dict[str, str]
    busy_s: float = 0.0
    longest_s: float = 0.0
    calls: int = 0
    done_bytes: int = 0


@dataclass
class _State:
    rank: str
    place: str
    loaded: dict[str, str] | None = None
    readings: dict[str, _Reading] = field(default_factory=dict)


class LiveWeights:
    """Mixed into vLLM's worker class; its methods are reached by ``collective_rpc``."""

    def quality_weights_open(self, token: str) -> dict[str, Any]:
        """Begin a reading under a token of the caller's choice."""
        state = _state_of(self)
        runner: Any = getattr(self, "model_runner")  # noqa: B009  of the class that this is mixed into
        found = find_live_tensors(_models(runner), _cache_addresses(runner))
        sums: dict[str, str] = {}
        while len(state.readings) >= MAX_READINGS:
            state.readings.pop(next(iter(state.readings)))
        state.readings[token] = _Reading(found, read_all(found.tensors, sums), sums)
        return {"rank": state.rank, "bytes": sum(tensor.size for tensor in found.tensors)}

    def quality_weights_read(self, token: str, seconds: float) -> dict[str, Any]:
        """Go on with a reading for about so many seconds; with ``result`` when all was read."""
        import torch

        state = _state_of(self)
        reading = state.readings.get(token)
        if reading is None:
            return {"rank": state.rank, "lost": True}
        began = now = time.perf_counter()
        is_done = False
        with torch.inference_mode():
            while not is_done and now - began < seconds:
                step = next(reading.steps, None)
                is_done = step is None
                reading.done_bytes += step or 0
                now = time.perf_counter()
        reading.calls += 1
        reading.busy_s += now - began
        reading.longest_s = max(reading.longest_s, now - began)
        if not is_done:
            return {"rank": state.rank, "bytes": reading.done_bytes}
        del state.readings[token]
        return {"rank": state.rank, "result": _result(state, reading)}


def read_all(tensors: list[LiveTensor], sums: dict[str, str]) -> Generator[int]:
    """Read every tensor into ``sums`` (name → checksum), yielding the bytes of each slice."""
    for tensor in tensors:
        size = HOST_SLICE if tensor.device == "cpu" else DEVICE_SLICE
        sums[tensor.name] = yield from hash_pieces(tensor.pieces(size))


def _result(state: _State, reading: _Reading) -> dict[str, Any]:
    tensors = reading.found.tensors
    lines = {t.name: tensor_line(t, reading.sums[t.name]) for t in tensors}
    is_first = state.loaded is None
    loaded = state.loaded = lines if state.loaded is None else state.loaded
    return {
        "rank": state.rank,
        "layout": layout_of(state.place, tensors),
        "root": root_of(lines),
        "loaded_root": root_of(loaded),
        "is_first": is_first,
        "tensors": len(tensors),
        "bytes": sum(tensor.size for tensor in tensors),
        "changed": compare(loaded, lines),
        "tied": dict(sorted(reading.found.tied.items())),
        "unseen": [
            {"name": one.name, "reason": one.reason, "bytes": one.size}
            for one in reading.found.unseen
        ],
        "seconds": round(reading.busy_s, 4),
        "longest_call_s": round(reading.longest_s, 4),
        "calls": reading.calls,
    }


def _state_of(worker: Any) -> _State:
    state: _State | None = getattr(worker, "_quality_weights", None)
    if state is None:
        state = worker._quality_weights = _State(_rank(worker), _place(worker))
    return state


def _models(runner: Any) -> Mapping[str, Any]:
    model = runner.get_model() if hasattr(runner, "get_model") else runner.model
    draft = getattr(getattr(runner, "drafter", None), "model", None)
    return (
        {"": model}
        if draft is None or not hasattr(draft, "named_modules")
        else {
            "": model,
            "draft.": draft,
        }
    )


def _cache_addresses(runner: Any) -> frozenset[int]:
    caches = getattr(runner, "kv_caches", None) or ()
    return frozenset(one.data_ptr() for one in caches if hasattr(one, "data_ptr"))


def _rank(worker: Any) -> str:
    prefix = getattr(worker, "_weight_checksum_prefix", None)
    try:
        return str(prefix()).rstrip(":") if prefix is not None else f"rank{worker.rank}"
    except Exception:  # noqa: BLE001  another vLLM names its groups otherwise; the rank is enough
        return f"rank{getattr(worker, 'rank', 0)}"


def _place(worker: Any) -> str:
    """Return what decides how weights are packed: the kind of device and what it can do."""
    import torch

    device = getattr(worker, "device", None)
    if device is not None and getattr(device, "type", "cpu") == "cuda":
        return f"cuda {torch.cuda.get_device_name(device)}"
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        return str(device.type)
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return "cpu " + " ".join(sorted(str(k) for k, has in capabilities.items() if has is True))
