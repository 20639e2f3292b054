"""A golden case and the digest of a golden set. Pure.

One case is one JSON object on one line of a ``.jsonl`` file; ``case.schema.json`` beside the
package data is its schema and ``docs/golden-set.md`` explains how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Params:
    """How a case is sampled."""

    temperature: float = 0.0
    seed: int | None = None
    max_tokens: int = 64
    top_p: float = 1.0

    @property
    def is_greedy(self) -> bool:
        """Whether the answer does not depend on random draws."""
        return self.temperature <= 0


@dataclass(frozen=True)
class GoldenCase:
    """One probe of the golden set."""

    id: str
    messages: tuple[Mapping[str, Any], ...]
    params: Params = Params()
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    facts: tuple[str, ...] = ()
    """Strings of which each should occur in the answer, case-insensitively; ``a|b`` means either."""
    checks: tuple[Mapping[str, Any], ...] = ()
    """Structure checks, ``{"type": "json" | "json_schema" | "regex" | "tool_call" | "max_words" | ..., ...}``."""
    tags: tuple[str, ...] = ()
    """Axes of the set: ``lang:fr``, ``long_context``, ``alone``, ``code``, ``multi_turn``, …"""
    repeats: int = 2
    """How often the probe is sent in a run; the second meets a warm prefix cache."""
    critical: bool = False
    """A critical case that stops passing its checks fails the whole run, if the baseline passed it."""
    source: str = field(default="", compare=False)
    """``file:line`` it came from, for messages; no part of the digest."""

    @property
    def axis(self) -> str:
        """The value of its ``axis:`` tag; empty without one."""
        return self._tag_value("axis:")

    @property
    def language(self) -> str:
        """The value of its ``lang:`` tag; empty without one."""
        return self._tag_value("lang:")

    def _tag_value(self, prefix: str) -> str:
        return next((tag.removeprefix(prefix) for tag in self.tags if tag.startswith(prefix)), "")


GoldenSet = Sequence[GoldenCase]
