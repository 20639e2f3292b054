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
    STALE_DATA = "stale_data"
    FRESH_DATA = "fresh_data"
    DECIDED = "decided"
    """Never sent: it becomes ``rollback_advised``, ``recovered`` or nothing."""
    WENT_BACK = "went_back"
    """Never sent: it becomes ``rollback_aborted`` where the task itself went back, and ``rollback_done``
    where it finished the way forward."""
    ROLLBACK_ADVISED = "rollback_advised"
    ROLLBACK_NOT_STARTED = "rollback_not_started"
    ROLLBACK_STARTED = "rollback_started"
    ROLLBACK_STEP = "rollback_step"
    ROLLBACK_STEP_FAILED = "rollback_step_failed"
    APPROVAL_WANTED = "approval_wanted"
    ROLLBACK_ABORTED = "rollback_aborted"
    ABORT_FAILED = "abort_failed"
    ROLLBACK_UNFINISHED = "rollback_unfinished"
    ROLLBACK_DONE = "rollback_done"
    STAGING_LEFT = "staging_left"
    PRUNE_FAILED = "prune_failed"


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
    Event.STALE_DATA: "warning",
    Event.FRESH_DATA: "info",
    Event.DECIDED: "info",
    Event.WENT_BACK: "info",
    Event.ROLLBACK_ADVISED: "critical",
    Event.ROLLBACK_NOT_STARTED: "critical",
    Event.ROLLBACK_STARTED: "warning",
    Event.ROLLBACK_STEP: "info",
    Event.ROLLBACK_STEP_FAILED: "error",
    Event.APPROVAL_WANTED: "critical",
    Event.ROLLBACK_ABORTED: "error",
    Event.ABORT_FAILED: "critical",
    Event.ROLLBACK_UNFINISHED: "warning",
    Event.ROLLBACK_DONE: "info",
    Event.STAGING_LEFT: "warning",
    Event.PRUNE_FAILED: "warning",
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

    @property
    def incident_id(self) -> str:
        """Return the incident that the event belongs to; empty outside of one."""
        return str(self.run.get("incident_id") or "")


def build(
    event: Event, facts: Facts, *, since: datetime | None = None, reminder: bool = False
) -> dict[str, Any]:
    """Return the event as it is sent; texts are cut, addresses lose their credentials.

    A degraded service is a warning where nothing worse is known; failed and changed are critical, and so
    is a rollback that finds no target.
    """
    run = facts.run
    severity = SEVERITY[event]
    if (
        event in {Event.QUALITY_BAD, Event.LOW_QUALITY}
        and run.get("summary") == "degraded"
        and run.get("changed") != "yes"
    ):
        severity = "warning"
    if event is Event.ROLLBACK_STEP_FAILED and run.get("state") == "no_target":
        severity = "critical"
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
        "incident_id": _text(facts.incident_id),
        "step": _text(run.get("step")),
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
