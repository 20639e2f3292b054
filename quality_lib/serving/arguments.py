"""A server's argument list without its secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"

_SECRET_OPTION = re.compile(r"^--?[\w.-]*(key|token|password|secret)$")
_SECRET_IN_JSON = re.compile(
    r"""(["'][\w-]*(?:key|token|password|secret)["']\s*:\s*)(["']).*?\2""", re.I
)
_USER_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


def mask_secrets(args: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with every key, token, password and secret replaced by ``***``.

    All values up to the next option are masked, because vLLM's ``--api-key`` takes several.
    """
    masked: list[str] = []
    secret = False
    for arg in args:
        if arg.startswith("-"):
            option, equals, _ = arg.partition("=")
            secret = bool(_SECRET_OPTION.match(option.replace("_", "-").lower()))
            if secret:
                masked.append(f"{option}={MASK}" if equals else option)
                continue
        masked.append(MASK if secret else _inside(arg))
    return tuple(masked)


def _inside(text: str) -> str:
    return _USER_IN_URL.sub(rf"\1{MASK}@", _SECRET_IN_JSON.sub(rf"\1\2{MASK}\2", text))
