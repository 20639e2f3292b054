"""Keeps secrets out of evidence: those of the process itself, and whatever looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from quality_lib.exchanges.masking import mask_text
from quality_lib.exchanges.secret_text import PASSWORD_IN_ADDRESS, SHAPES, SecretShape
from quality_lib.serving.arguments import MASK, mask_secrets

SHORTEST = 6
"""A shorter value is not searched for: it would be found in half of the words."""

_SECRET_NAME = re.compile(
    r"(?i)(keys?|key_?id|token|passw(or)?ds?|passphrase|secrets?|credentials?|cookies?|auth)$"
)
# Variables that explain how a server computes. Of any other one only the name is kept: nobody can
# know what an organisation keeps in its own.
_SHOWN = re.compile(
    r"(VLLM|CUDA|CUBLAS|CUDNN|NVIDIA|NCCL|GLOO|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|INDUCTOR|HF|TRANSFORMERS"
    r"|TOKENIZERS|SAFETENSORS|OMP|MKL|KMP|OPENBLAS|GOMP|MALLOC|PYTHON|LD|LC|RAY|QUALITY|NUMBA|FLASHINFER"
    r"|XFORMERS|ROCM|HIP|HSA)_.*|(PYTHON\w+|PATH|LANG|TZ|VIRTUAL_ENV|CONDA_PREFIX|HOSTNAME|PWD)"
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable or option of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secret_values(env: Mapping[str, str], args: Sequence[str] = ()) -> set[str]:
    """Return the secrets that an environment and an argument list hold."""
    found = {value for name, value in env.items() if is_secret_name(name)}
    for arg, masked in zip(args, mask_secrets(args), strict=True):
        if arg == masked:
            continue
        head, _, _ = masked.partition(MASK)
        found.add(arg[len(head) :] if masked.endswith(MASK) else arg)
    return {value for value in found if len(value) >= SHORTEST}


def shown_environment(env: Mapping[str, str], mask: SecretMask) -> dict[str, str | None]:
    """Return the variables that matter; ``None`` stands for a value that is not shown."""
    return {
        name: mask.text(value) if _SHOWN.fullmatch(name) and not is_secret_name(name) else None
        for name, value in sorted(env.items())
    }


class SecretMask:
    """Masks known secrets, and whatever looks like a secret or personal data."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        spellings = {
            spelling
            for value in known
            if len(value) >= SHORTEST
            for spelling in (value, json.dumps(value)[1:-1], quote(value, safe=""))
        }
        # The longest first: one secret may be the beginning of another.
        self._known = sorted(spellings, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text without secrets; numbers and addresses stay, for facts are made of them."""
        for value in self._known:
            text = text.replace(value, MASK)
        for shape in (*SHAPES, PASSWORD_IN_ADDRESS):
            if any(marker in text for marker in shape.markers):
                text = shape.pattern.sub(partial(_masked, shape), text)
        return text

    def spoken(self, text: str) -> str:
        """Return what users may have written, without secrets and without personal data."""
        return mask_text(self.text(text)).text

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets; also by the names that they stand under."""
        return _each(value, self.text)

    def spoken_value(self, value: Any) -> Any:
        """As ``value``, for texts that users may have written."""
        return _each(value, self.spoken)


def _each(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _named(str(name), item, mask) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, mask) for item in value]
    return mask(value) if isinstance(value, str) else value


def _named(name: str, value: Any, mask: Callable[[str], str]) -> Any:
    is_hidden = isinstance(value, str) and value != "" and is_secret_name(name)
    return MASK if is_hidden else _each(value, mask)


def _masked(shape: SecretShape, match: re.Match[str]) -> str:
    if not shape.is_real(match):
        return match[0]
    start, end = match.span(shape.group)
    return match[0][: start - match.start()] + MASK + match[0][end - match.start() :]
