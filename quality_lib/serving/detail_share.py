"""Which requests are recorded with token ids and log-probabilities."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from quality_lib.exchanges.recording import gets_detail

GIVE_UP_AFTER = 3
"""Requests that a server refuses only because of what was added, before nothing is added for a while."""
FORGET_AFTER_S = 600.0
"""How long a refusal counts. A server that never serves details, or has NaN in all of its answers,
answers so few requests twice that it costs nothing; one that is well again tells details again."""


class DetailShare:
    """A share of all requests, chosen by their ids."""

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._refusals: deque[float] = deque(maxlen=GIVE_UP_AFTER)

    def wants(self, request_id: str) -> bool:
        """Return whether a request is to be recorded in detail."""
        return gets_detail(request_id, self._share) and not self._has_given_up()

    def refused(self) -> None:
        """Take note that this server does not serve the details to a request it serves without."""
        self._refusals.append(self._clock())

    def _has_given_up(self) -> bool:
        refusals = self._refusals
        return len(refusals) == GIVE_UP_AFTER and self._clock() - refusals[0] < FORGET_AFTER_S
