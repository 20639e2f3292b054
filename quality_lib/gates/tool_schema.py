"""The tools that a request offered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def offered_tools(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the JSON schema of every offered tool's arguments by its name."""
    offered: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            schema = function.get("parameters") or function.get("input_schema") or {}
            offered[function["name"]] = schema if isinstance(schema, Mapping) else {}
    return offered
