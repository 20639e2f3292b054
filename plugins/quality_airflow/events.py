"""One alert as one JSON object. Pure: facts in, a plain dictionary out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MAX_TEXT = 600
MAX_ITEMS = 10
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")


class Event(StrEnum):
    """What is told."""

    QUALITY_BAD = "quality_bad"
    LOW_QUALITY = "low_quality"
    NO_DATA = "no_data"
    CHECKER_BROKEN = "checker_broken"
    RECOVERED = "recovered"
    NOT_RECORDED = "not_recorded"
    RECORDED = "recorded"
    REGISTRATION_FAILED = "registration_failed"
    SNAPSHOT_REGISTERED = "snapshot_registered"


SEVERITY = {
    Event.QUALITY_BAD: "critical",
    Event.LOW_QUALITY: "critical",
    Event.CHECKER_BROKEN: "error",
    Event.NO_DATA: "warning",
    Event.NOT_RECORDED: "warning",
    Event.REGISTRATION_FAILED: "warning",
    Event.RECOVERED: "info",
    Event.RECORDED: "info",
    Event.SNAPSHOT_REGISTERED: "info",
}


@dataclass(frozen=True)
class Facts:
    """What a callback could find out; every part may be missing."""

    service: str
    at: datetime
    headline: str = ""
    run: Mapping[str, Any] = field(default_factory=dict)
    """The result of ``golden check`` or ``logs merge``, or nothing."""
    links: Mapping[str, str] = field(default_factory=dict)
    dag_id: str = ""
    dag_run_id: str = ""


def build(
    event: Event, facts: Facts, *, since: datetime | None = None, reminder: bool = False
) -> dict[str, Any]:
    """Return the event as it is sent; texts are cut, addresses lose their credentials.

    A degraded service is a warning where nothing worse is known; failed and changed are critical.
    """
    run = facts.run
    severity = SEVERITY[event]
    if (
        event in {Event.QUALITY_BAD, Event.LOW_QUALITY}
        and run.get("summary") == "degraded"
        and run.get("changed") != "yes"
    ):
        severity = "warning"
    return {
        "name": event.value,
        "service": facts.service,
        "severity": severity,
        "headline": _text(facts.headline or run.get("headline") or event.value.replace("_", " ")),
        "verdict": {k: run[k] for k in ("summary", "changed", "degraded") if k in run},
        "reasons": [
            {"code": _text(r.get("code")), "sentence": _text(r.get("sentence"))}
            for r in _items(run.get("reasons"))
            if isinstance(r, Mapping)
        ],
        "worst_cases": [_text(case) for case in _items(run.get("worst_cases"))],
        "suspected": _text(run.get("suspected")),
        "snapshot_id": _text(run.get("snapshot_id")),
        "links": {name: _text(url) for name, url in facts.links.items() if url},
        "dag_id": facts.dag_id,
        "dag_run_id": facts.dag_run_id,
        "reminder": reminder,
        "since": (since or facts.at).isoformat(),
        "at": facts.at.isoformat(),
    }


def _items(value: Any) -> Sequence[Any]:
    return value[:MAX_ITEMS] if isinstance(value, list | tuple) else ()


def _text(value: Any) -> str:
    text = "" if value is None else _CREDENTIALS.sub("***@", str(value))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
