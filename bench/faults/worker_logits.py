"""Harmed scores of the next token, a harmed choice among healthy ones, and healthy noise before the head."""

from __future__ import annotations

from typing import Any

from bench.faults.worker_undo import UndoStack

SCORES = frozenset({"nan", "constant", "uniform"})
CONSTANT_TOKEN = 17
"""The token that ``constant`` always gives: an ordinary one, so that nothing else gives it away."""


def harm(runner: Any, given: dict[str, Any], stack: UndoStack) -> None:
    """Harm every answer until the stack is mended.

    Faults of the scores change what the server reports; those of the choice leave the reported scores healthy,
    as a wrong kernel in the sampler does.
    """
    how = given["how"]
    if how in SCORES:
        inner = runner.model.compute_logits

        def compute(*args: Any, **kwargs: Any) -> Any:
            return harmed_scores(inner(*args, **kwargs), how)

        stack.replace(runner.model, "compute_logits", compute)
        return
    sample, maker = runner.sampler.sample, _maker(given["seed"])

    def choose(logits: Any, *args: Any, **kwargs: Any) -> Any:
        return sample(harmed_choice(logits, how, given["share"], maker), *args, **kwargs)

    stack.replace(runner.sampler, "sample", choose)


def harmed_scores(logits: Any, how: str) -> Any:
    """Return scores that are no numbers, all the same, or in favour of one token."""
    if logits is None:
        return None
    if how == "nan":
        return logits.fill_(float("nan"))
    logits = logits.zero_()
    if how == "constant":
        logits[:, CONSTANT_TOKEN] = 100.0
    return logits


def harmed_choice(logits: Any, how: str, share: float, maker: Any) -> Any:
    """Return scores in which the best token has lost its place: to the second, or altogether.

    ``second`` exchanges the two best in a share of the rows; ``drop_top`` removes the best one.
    """
    import torch

    if how not in {"second", "drop_top"}:
        raise ValueError(f"there is no fault of the choice called '{how}'")
    best = logits.topk(2, dim=-1)
    is_hit = torch.rand(logits.shape[0], generator=maker) < share
    for row in is_hit.nonzero().flatten().tolist():
        first, second = best.indices[row].tolist()
        if how == "drop_top":
            logits[row, first] = float("-inf")
        else:
            logits[row, first], logits[row, second] = best.values[row, 1], best.values[row, 0]
    return logits


def jitter(model: Any, size: float, seed: int, stack: UndoStack) -> None:
    """Multiply what goes into the head by ``1 + size * noise``, another draw each time."""
    import torch

    inner, maker = model.compute_logits, _maker(seed)

    def compute(hidden: Any, *args: Any, **kwargs: Any) -> Any:
        noise = torch.randn(hidden.shape, generator=maker)
        moved = (hidden.float() * (1.0 + size * noise)).to(hidden.dtype)
        return inner(moved, *args, **kwargs)

    stack.replace(model, "compute_logits", compute)


def _maker(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)
