"""Whether a server answers that it is well."""

from __future__ import annotations

import httpx

TIMEOUT_S = 5.0
ATTEMPTS = 2


def is_healthy(address: str, transport: httpx.BaseTransport | None = None) -> bool:
    """Return whether ``GET /health`` at ``host:port`` gives 200; one lost request is asked again."""
    with httpx.Client(
        base_url=f"http://{address}", timeout=TIMEOUT_S, trust_env=False, transport=transport
    ) as client:
        for _ in range(ATTEMPTS):
            try:
                return client.get("/health").status_code == httpx.codes.OK
            except httpx.HTTPError:
                continue
    return False
