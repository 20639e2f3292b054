"""Flips bits of the weights of a running vLLM server. For tests only; it is not shipped.

Loaded with ``--worker-extension-cls tests.serving.flipping.FlipWorker`` and
``--middleware tests.serving.flipping.Flipping``; ``POST /flip?name=…&element=…&bit=…`` flips one.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from quality_lib.serving.live_tensors import ask_linear
from quality_lib.serving.live_weights_worker import LiveWeights


class FlipWorker(LiveWeights):
    """The shipped extension and a way to damage what it watches."""

    def flip_one_bit(self, name: str, element: int, bit: int) -> bool:
        """Flip one bit of a parameter, a buffer, or of what a layer has packed away."""
        import torch

        model = self.model_runner.get_model()  # type: ignore[attr-defined]
        with torch.inference_mode():
            owner, _, rest = name.partition(".cpu_linear.")
            if not rest:
                held = dict(model.named_parameters()) | dict(
                    model.named_buffers(remove_duplicate=False)
                )
                _flip(held[name], element, bit)
                return True
            layer = model.get_submodule(owner)
            closure = layer.cpu_linear.__closure__
            cells = dict(zip(layer.cpu_linear.__code__.co_freevars, closure, strict=True))
            held_there = cells[rest].cell_contents
            if isinstance(held_there, torch.Tensor):
                _flip(held_there, element, bit)
            else:
                _pack_again(layer, held_there, element, bit)
        return True


def _flip(tensor: Any, element: int, bit: int) -> None:
    import torch

    raw = tensor.data.view(-1).view(torch.uint8)
    raw[element * tensor.element_size() + bit // 8] ^= 1 << (bit % 8)


def _pack_again(layer: Any, handler: Any, element: int, bit: int) -> None:
    """Give a oneDNN handler the same weight with one bit flipped: its memory cannot be written."""
    import torch
    from vllm import _custom_ops as ops

    dtype = layer.weight.dtype
    rows = list(ask_linear(layer.cpu_linear, handler.n, handler.k, dtype, 2**30))
    weight = torch.cat(rows).view(dtype).view(handler.k, handler.n).t().contiguous()
    _flip(weight, element, bit)
    other = ops.create_onednn_mm(weight.t(), 32)
    handler.handler_tensor, other.handler_tensor = other.handler_tensor, handler.handler_tensor


class Flipping:
    """Answers ``POST /flip``; passes everything else through."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/flip" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        asked = {key: value[0] for key, value in parse_qs(scope["query_string"].decode()).items()}
        args = (asked["name"], int(asked["element"]), int(asked["bit"]))
        await scope["app"].state.engine_client.collective_rpc("flip_one_bit", args=args)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
