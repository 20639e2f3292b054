"""The audit trail of a service's snapshots: who did what, when, and whether it came through. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quality_lib.errors import BadInput
from quality_lib.snapshots.manifest import canonical_json


class Action(StrEnum):
    """What can be done to a snapshot."""

    CREATED = "created"
    ALIAS_SET = "alias_set"
    HEALTH_SET = "health_set"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    REMOVED = "removed"


class Result(StrEnum):
    """How an action ended. Every action is written down before it is tried."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Begun, and the process that did it never said how it ended."""


@dataclass(frozen=True)
class AuditEntry:
    """One line of the trail."""

    at: datetime
    by: str
    action: Action
    snapshot_id: str
    detail: Mapping[str, str] = field(default_factory=dict)
    """For an alias its name, the snapshot it left (``from``) and the reason."""
    result: Result = Result.DONE

    def to_json(self) -> str:
        """Return the entry without its result, which the store keeps beside it."""
        return canonical_json({
            "at": self.at.isoformat(),
            "by": self.by,
            "action": self.action.value,
            "snapshot_id": self.snapshot_id,
            "detail": dict(self.detail),
        })


def entry_from_json(text: str, result: Result) -> AuditEntry:
    """Read what ``AuditEntry.to_json`` wrote.

    Raises:
        BadInput: the text is something else.
    """
    try:
        data = json.loads(text)
        return AuditEntry(
            at=datetime.fromisoformat(data["at"]),
            by=str(data["by"]),
            action=Action(data["action"]),
            snapshot_id=str(data["snapshot_id"]),
            detail={str(k): str(v) for k, v in data["detail"].items()},
            result=result,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"an entry of the audit trail cannot be read: {error!r}") from error
