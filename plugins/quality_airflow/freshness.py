"""When a golden run of a service was stored last, in the state store of ``llm/health``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


def seen(store: Any, service: str, at: datetime) -> None:
    """Keep that a golden run was stored."""
    store.set(_key(service), at.isoformat())


def age(store: Any, service: str, now: datetime) -> timedelta:
    """Return how long ago a golden run was stored; of a new service, how long it is watched."""
    try:
        last = datetime.fromisoformat(store.get(_key(service)))
        return now - last
    except (TypeError, ValueError):
        seen(store, service, now)
        return timedelta(0)


def _key(service: str) -> str:
    return f"golden run stored:{service}"
