"""One id for a request, from the client where it has one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from quality_lib.serving.asgi import header

HEADER = b"x-request-id"
_USABLE = re.compile(r"[\x21-\x7e]{1,256}")


def client_id(headers: Iterable[Any], body: Mapping[str, Any]) -> str | None:
    """Return the id that vLLM would use by itself: the header's, else the body's ``request_id``.

    An id with characters that no header may carry, or of more than 256, counts as none.
    """
    given = header(headers, HEADER)
    value = given.decode("latin-1") if given is not None else body.get("request_id")
    return value if isinstance(value, str) and _USABLE.fullmatch(value) else None


def new_id() -> str:
    """Return an id as vLLM makes them."""
    return uuid.uuid4().hex
