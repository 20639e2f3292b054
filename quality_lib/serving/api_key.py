"""Whether a request carries the key that the vLLM server asks for."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from quality_lib.serving.asgi import Scope, header


def is_let_in(scope: Scope, env: Mapping[str, str]) -> bool:
    """Return whether vLLM will serve the request: it has no key, or the caller knows it."""
    state = getattr(scope.get("app"), "state", None)
    given = getattr(getattr(state, "args", None), "api_key", None)
    known = [given] if isinstance(given, str) else list(given or [env.get("VLLM_API_KEY", "")])
    keys = [key for key in known if key]
    if not keys:
        return True
    scheme, _, told = (header(scope.get("headers", ()), b"authorization") or b"").partition(b" ")
    matches = [secrets.compare_digest(_sha(told), _sha(key.encode())) for key in keys]
    return scheme.lower() == b"bearer" and any(matches)


def _sha(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
