"""A harmed KV cache: before each step, the blocks of requests that have begun to generate are touched.

A block is one of the request's own, whatever its number in the pool, so the same fault hits every request alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.faults.worker_undo import UndoStack

ONCE = frozenset({"swap_blocks", "scale_value"})
"""Done once a request; the others may be done again and again without further effect."""


def harm(runner: Any, given: dict[str, Any], stack: UndoStack) -> None:
    """Harm the cache of generating requests until the stack is mended."""
    act = ACTS[given["how"]]
    done: set[str] = set()
    inner = runner.execute_model

    def execute(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        for request in scheduled.scheduled_cached_reqs.req_ids:
            if not _generates(runner, request) or request in done:
                continue
            if given["how"] in ONCE:
                done.add(request)
            act(_layer(runner, given["layer"]), _blocks(runner, request), given)
        return inner(scheduled, *args, **kwargs)

    stack.replace(runner, "execute_model", execute)


def _generates(runner: Any, request: str) -> bool:
    state = runner.requests.get(request)
    return state is not None and len(state.output_token_ids) > 0


def _blocks(runner: Any, request: str) -> list[int]:
    return list(runner.requests[request].block_ids[0])


def _layer(runner: Any, layer: int) -> list[Any]:
    """Return the caches to touch: one layer's, or those of all for ``layer`` beyond the last."""
    caches = list(runner.kv_caches)
    return caches if layer >= len(caches) else [caches[layer]]


def _zero_block(caches: list[Any], blocks: list[int], given: dict[str, Any]) -> None:
    for cache in caches:
        cache[blocks[min(given["block"], len(blocks) - 1)]].zero_()


def _swap_blocks(caches: list[Any], blocks: list[int], given: dict[str, Any]) -> None:
    if len(blocks) < 2:
        return
    one, other = blocks[0], blocks[1]
    for cache in caches:
        held = cache[one].clone()
        cache[one].copy_(cache[other])
        cache[other].copy_(held)


def _scale_value(caches: list[Any], blocks: list[int], given: dict[str, Any]) -> None:
    for cache in caches:
        block = cache[blocks[min(given["block"], len(blocks) - 1)]].view(-1)
        block[given["seed"] % block.numel()] *= given["factor"]


def _round_fp8(caches: list[Any], blocks: list[int], given: dict[str, Any]) -> None:
    import torch

    for cache in caches:
        rounded = cache[blocks].to(torch.float8_e4m3fn).to(cache.dtype)
        cache[blocks] = rounded


ACTS: dict[str, Callable[[list[Any], list[int], dict[str, Any]], None]] = {
    "zero_block": _zero_block,
    "swap_blocks": _swap_blocks,
    "scale_value": _scale_value,
    "round_fp8": _round_fp8,
}
