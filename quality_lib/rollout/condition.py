"""A condition of the policy as it was found, with every input behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality_lib.records import Tri
from quality_lib.rollout.evidence import Place


@dataclass(frozen=True)
class Note:
    """A named reason, for programs and for people."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Condition:
    """A, B or C."""

    name: str
    state: Tri
    sentence: str
    inputs: tuple[Mapping[str, Any], ...] = ()
    """As ``reading`` makes them, the newest first; those that did not count are among them."""
    notes: tuple[Note, ...] = ()
    """What a reader should know beside the state, such as ``stale``."""


def reading(
    source: str,
    name: str,
    at: str,
    placed: Place,
    *,
    value: str,
    limit: str,
    state: Tri,
    why_not: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Return one input as it is recorded and shown.

    ``state`` is what it says alone, and ``why_not`` why it does not count apart from its time.
    """
    problem = placed.problem or why_not
    return {
        "source": source,
        "name": name,
        "at": at,
        "age_s": None if placed.age_s is None else round(placed.age_s, 1),
        "value": value,
        "limit": limit,
        "state": state.value,
        "counted": not problem,
        "why_not": problem,
        **more,
    }
