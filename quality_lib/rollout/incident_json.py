"""An incident as one JSON text, and which states may follow which. Pure."""

from __future__ import annotations

import json
import typing
from dataclasses import fields
from datetime import datetime
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.rollout.incident import CLOSED, IncidentRecord

STATES = frozenset({"open", "rolling"}) | CLOSED


def record_to_json(record: IncidentRecord) -> str:
    """Write a record; its address is the store's to know and is left out."""
    values = {
        f.name: _plain(getattr(record, f.name)) for f in fields(IncidentRecord) if f.name != "url"
    }
    return json.dumps(values, ensure_ascii=False, sort_keys=True)


def record_from_json(text: str, url: str = "") -> IncidentRecord:
    """Read what ``record_to_json`` wrote.

    Raises:
        BadInput: the text is something else.
    """
    try:
        data = json.loads(text)
        hints = typing.get_type_hints(IncidentRecord)
        values = {
            f.name: _read(hints[f.name], data[f.name])
            for f in fields(IncidentRecord)
            if f.name != "url"
        }
        if values["state"] not in STATES:
            raise ValueError(f"state {values['state']!r}")
        return IncidentRecord(**values, url=url)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"the record of an incident cannot be read: {error!r}") from error


def check_transition(stored: IncidentRecord, wanted: IncidentRecord) -> None:
    """Refuse to reopen what is closed, or to put another incident in its place.

    Raises:
        BadInput: naming what was tried.
    """
    if stored.service != wanted.service:
        raise BadInput(f"incident '{stored.incident_id}' belongs to '{stored.service}'")
    if stored.is_closed and not wanted.is_closed:
        raise BadInput(
            f"incident '{stored.incident_id}' is closed ({stored.state}) and cannot be "
            f"{wanted.state} again",
            fix="decide again: a new incident gets a new id",
        )


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _read(kind: Any, value: Any) -> Any:
    is_time = kind is datetime or datetime in typing.get_args(kind)
    return datetime.fromisoformat(value) if is_time and value is not None else value
