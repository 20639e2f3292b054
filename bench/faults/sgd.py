"""Weights after some real steps of training: the part of TinyChange that no formula can replace.

    python -m bench.faults.sgd MODEL OUT --steps 1 8 64 [--rate 1e-6]

Plain gradient descent, one text a step, as the protocol describes it. Writes ``OUT/tuned-N`` with the tensors alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.exchanges import prompts

RATE = 1e-6
LONGEST = 128
"""Tokens of a text."""


def fine_tune(model: Path, out: Path, steps: Sequence[int], rate: float = RATE) -> dict[int, Path]:
    """Train and keep the weights after each number of steps; what is there already is kept."""
    folders = {count: out / f"tuned-{count}" for count in sorted(set(steps))}
    if all((folder / "model.safetensors").exists() for folder in folders.values()):
        return folders
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model)
    trained = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).float()
    descent = torch.optim.SGD(trained.parameters(), lr=rate)
    texts = [prompt.user for prompt in prompts.ALL]
    for number in range(1, max(folders) + 1):
        ids = tokenizer(texts[number % len(texts)], return_tensors="pt", truncation=True,
                        max_length=LONGEST)["input_ids"]  # fmt: skip
        loss = trained(input_ids=ids, labels=ids).loss
        loss.backward()
        descent.step()
        descent.zero_grad()
        print(f"step {number}/{max(folders)}: loss {loss.item():.3f}", file=sys.stderr, flush=True)
        if number in folders:
            folders[number].mkdir(parents=True, exist_ok=True)
            tensors = {
                name: tensor.detach().to(torch.bfloat16).contiguous()
                for name, tensor in trained.named_parameters()
            }
            save_file(tensors, folders[number] / "model.safetensors")
    return folders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rate", type=float, default=RATE)
    args = parser.parse_args()
    for folder in fine_tune(args.model, args.out, args.steps, args.rate).values():
        print(folder)


if __name__ == "__main__":
    main()
