"""Whose traffic is read from a log, and what marks the product's own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.exchanges.json_fields import mapping
from quality_lib.exchanges.row import Row

PROBE_HEADER = "x-quality-probe"
PROBE_NAME = "quality-probe"
"""As a gateway's tag, user or metadata key: for gateways that do not log headers."""

Reader = Callable[[Mapping[str, Any], str, int], Iterator[Row]]
"""Turns one JSON object of a log, with its object's key and line, into rows; never raises."""


@dataclass(frozen=True)
class Source:
    """The service whose exchanges are wanted."""

    service: str = ""
    models: frozenset[str] = frozenset()
    """Names under which gateways know its model; empty: the log holds this service alone."""

    def serves(self, *names: str) -> bool:
        """Return whether one of the names is this service's; where no name is known it is."""
        known = {name for name in names if name}
        if not self.models or not known:
            return True
        # A gateway may write the provider in front: hosted_vllm/chat.
        return not self.models.isdisjoint(known | {name.rsplit("/", 1)[-1] for name in known})


def is_probe(names: Iterable[Any], headers: Iterable[Any] = ()) -> bool:
    """Return whether a tag, user or header marks the product's own traffic."""
    if PROBE_NAME in {name for name in names if isinstance(name, str)}:
        return True
    return any(_marks(mapping(given)) for given in headers)


def _marks(headers: Mapping[str, Any]) -> bool:
    for name, value in headers.items():
        if len(name) == len(PROBE_HEADER) and name.lower() == PROBE_HEADER:
            return str(value).strip().lower() not in {"", "0", "false", "none"}
    return False
