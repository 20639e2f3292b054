"""A worker around a small torch model that holds its weights in all the ways that vLLM does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from quality_lib.serving.live_weights_worker import LiveWeights

HIDDEN, VOCABULARY = 24, 40


class NativeHandler:
    """Stands for oneDNN's: multiplies, and shows nothing of what it multiplies with."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.handler_tensor = torch.tensor(id(self))
        self.n, self.k = weight.shape
        self.weight = [weight.clone()]  # a list, so that no walk takes it for a tensor of the model


def packed(layer: torch.nn.Linear) -> None:
    """Move a layer's weight into a handler, as vLLM's CPU back-end does."""
    handler = NativeHandler(layer.weight.data)
    layer.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(
        x, handler.weight[0], bias
    )
    layer.weight = torch.nn.Parameter(torch.empty(0, dtype=layer.weight.dtype))


def packed_tensor(layer: torch.nn.Linear) -> None:
    """Move a layer's weight into a tensor that only a closure holds."""
    packed_weight = layer.weight.data.clone()
    layer.cpu_linear = lambda x, weight, bias: torch.nn.functional.linear(x, packed_weight, bias)
    layer.weight = torch.nn.Parameter(torch.empty(0, dtype=layer.weight.dtype))


class SmallModel(torch.nn.Module):
    """Embedding and head are tied; one layer lies in a handler, one in a closure."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        kind = {"dtype": torch.bfloat16}
        self.embed = torch.nn.Embedding(VOCABULARY, HIDDEN, **kind)
        self.gate = torch.nn.Linear(HIDDEN, 3 * HIDDEN, **kind)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN, bias=False, **kind)
        self.norm = torch.nn.LayerNorm(HIDDEN, **kind)
        self.head = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False, **kind)
        self.head.weight = self.embed.weight
        self.register_buffer("rotary", torch.arange(12.0), persistent=False)
        self.kv_cache = torch.zeros(64)
        self.W_UV = torch.ones(4, 4, dtype=torch.bfloat16)
        self.counts = torch.zeros(5, dtype=torch.int64)
        packed(self.gate)
        packed_tensor(self.out)


class SmallWorker(LiveWeights):
    """As much of vLLM's worker as the extension needs."""

    def __init__(self, model: torch.nn.Module | None = None, rank: int = 0) -> None:
        self.rank = rank
        self.device = torch.device("cpu")
        self.model = model or SmallModel()
        self.model_runner = SimpleNamespace(get_model=lambda: self.model, kv_caches=[])


class SmallEngineClient:
    """vLLM's engine client over workers in this process."""

    def __init__(self, *workers: Any, before: Callable[[str], None] = lambda method: None) -> None:
        self.workers = workers
        self.calls: list[str] = []
        self.before = before
        self.sleeps = False

    async def is_sleeping(self) -> bool:
        return self.sleeps

    async def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        self.calls.append(method)
        self.before(method)
        return [getattr(worker, method)(*args) for worker in self.workers]


def state(client: Any, extension: str = f"{__name__}.SmallWorker") -> SimpleNamespace:
    """vLLM's application state around a client."""
    parallel = SimpleNamespace(worker_extension_cls=extension)
    return SimpleNamespace(
        engine_client=client, vllm_config=SimpleNamespace(parallel_config=parallel)
    )


def read(worker: Any, token: str = "t") -> dict[str, Any]:
    """Take one reading of one worker, as fast as it goes."""
    worker.quality_weights_open(token)
    while True:
        answer: dict[str, Any] = worker.quality_weights_read(token, 60.0)
        if "result" in answer:
            result: dict[str, Any] = answer["result"]
            return result


def flip(tensor: torch.Tensor, element: int = 0, bit: int = 0) -> None:
    """Flip one bit of a tensor where it lies."""
    raw = tensor.detach().view(-1).view(torch.uint8)
    raw[element] ^= 1 << bit
