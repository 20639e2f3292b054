"""What the backends of a route did with their requests, by nginx's logs and by their own word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import httpx

from quality_lib.adapters.nginx.access_log import FAILED_STATUS, LoggedRequest
from quality_lib.adapters.nginx.status import one_shot_client
from quality_lib.rollout.ports import Served

_WAITING = re.compile(
    r"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE
)


def summarise(
    requests: Sequence[LoggedRequest], cut: AbstractSet[LoggedRequest], in_flight: int | None
) -> Served:
    """Count what became of requests; ``cut`` are those whose answer the backend broke off."""
    return Served(
        requests=len(requests),
        failed=sum(r.status >= FAILED_STATUS for r in requests),
        cut=sum(r in cut for r in requests),
        slowest_s=max((r.took_s for r in requests), default=0.0),
        in_flight=in_flight,
        left=sum(not r.is_done and r.status < FAILED_STATUS and r not in cut for r in requests),
    )


def asked_in_flight(address: str) -> int | None:
    """Ask a vLLM server how many requests it runs and holds in its queue; None when it cannot tell."""
    try:
        answer = one_shot_client().get(f"http://{address}/metrics")
    except httpx.HTTPError:
        return None
    found = _WAITING.findall(answer.text) if answer.status_code == httpx.codes.OK else []
    return round(sum(map(float, found))) if found else None
