"""Which start of a server answers now: its process began at another time after each restart."""

from __future__ import annotations

import httpx

from quality_lib.adapters.engine.signals import TIMEOUT_S, process_of
from quality_lib.errors import BadInput, OutsideFailure


def server_start(
    endpoint: str, api_key: str | None = None, transport: httpx.BaseTransport | None = None
) -> str | None:
    """Return a name of the server's start, from ``/metrics``; None where that does not tell.

    Several processes behind one address tell several starts, or different ones each time: then no one
    name is right.

    Raises:
        OutsideFailure: nobody answers.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(
            base_url=endpoint, headers=headers, timeout=TIMEOUT_S, transport=transport
        ) as client:
            answer = client.get("/metrics")
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise OutsideFailure(f"{endpoint} does not answer: {reason}") from error
    except httpx.InvalidURL as error:
        raise BadInput(f"'{endpoint}' is no address: {error}", field="endpoint") from error
    if answer.status_code != httpx.codes.OK:
        return None
    try:
        return process_of(answer.text) or None
    except ValueError:
        return None
