"""Turns a GGUF file into a bf16 safetensors folder: ``python -m … FILE.gguf OUT``.

A program of its own, because the conversion needs torch and much memory and is done once.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path


def convert(gguf: Path, out: Path) -> None:
    """Write weights, tokenizer, chat template and configs; the same file gives the same bytes."""
    # A GGUF file has hundreds of thousands of small fields, each read as arrays of its own, and the
    # collector goes through all of torch's objects again and again meanwhile: minutes, for nothing.
    gc.disable()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
