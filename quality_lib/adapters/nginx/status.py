"""What a running nginx tells of the route that it works by."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import httpx

from quality_lib.adapters.nginx.options import STATUS_PATH
from quality_lib.errors import OutsideFailure

ASK_TIMEOUT_S = 5.0


@functools.cache
def one_shot_client() -> httpx.Client:
    """Return a client that opens a connection for every request; made once, for it reads certificates."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(timeout=ASK_TIMEOUT_S, trust_env=False, limits=limits)


@dataclass(frozen=True)
class RouteStatus:
    """Asks one nginx about one service's route."""

    service: str
    url: str
    """Base address."""

    def ask(self) -> dict[str, Any]:
        """Ask over a new connection, which only a worker of the newest configuration accepts.

        Raises:
            OutsideFailure: nobody answers, or something else than this route.
        """
        address = f"{self.url}{STATUS_PATH}"
        try:
            answer = one_shot_client().get(address, headers={"Connection": "close"})
        except httpx.HTTPError as error:
            raise OutsideFailure(
                f"the route of '{self.service}' does not answer at {address}: "
                f"{str(error) or type(error).__name__}"
            ) from error
        if answer.status_code == httpx.codes.FORBIDDEN:
            raise OutsideFailure(f"{address} does not trust this machine; see route.trusted")
        try:
            told = dict(answer.json())
            if told["service"] == self.service and "revision" in told:
                return told
        except (ValueError, KeyError, TypeError):
            pass
        raise OutsideFailure(
            f"{address} is not the route of '{self.service}': HTTP {answer.status_code}"
        )

    def ask_or_none(self) -> dict[str, Any] | None:
        """Ask, and return None when this route does not answer."""
        try:
            return self.ask()
        except OutsideFailure:
            return None
