"""Canonical digests of a tokenizer and of the chat template it is used with.

The same functions run inside the server and over a folder of files, so both give the same digest
for the same tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def tokenizer_sha256(tokenizer: Any) -> str | None:
    """Digest what decides how text becomes tokens: backend definition and special tokens.

    Truncation and padding are left out: they are switched per call. Slow tokenizers without a
    backend are digested by their vocabulary.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None) or getattr(
        tokenizer, "_tokenizer", None
    )
    if hasattr(backend, "to_str"):
        definition = json.loads(backend.to_str())
        for switched in ("version", "truncation", "padding"):
            definition.pop(switched, None)
    elif hasattr(tokenizer, "get_vocab"):
        definition = {"vocab": tokenizer.get_vocab()}
    else:
        return None
    special = {
        name: str(getattr(tokenizer, f"{name}_token", None))
        for name in ("bos", "eos", "unk", "pad", "sep", "cls", "mask")
    }
    return _digest({"definition": definition, "special": special})


def chat_template_sha256(template: Any) -> str | None:
    """Digest a chat template; of several named ones the ``default``, as the server does."""
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str):
        return None
    return hashlib.sha256(template.encode()).hexdigest()


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
