"""A store of incidents in memory; ``contracts/incident_store.py`` keeps it honest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.incident_json import check_transition


class InMemoryIncidents:
    def __init__(self) -> None:
        self._records: dict[str, IncidentRecord] = {}
        self._decisions: dict[str, Mapping[str, Any]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.metrics: dict[str, dict[str, float]] = {}

    def open(self, record: IncidentRecord, decision: Mapping[str, Any]) -> IncidentRecord:
        key = record.incident_id
        if key not in self._records:
            self._records[key] = replace(record, url=f"memory://{key}")
            self._decisions[key] = json.loads(json.dumps(decision, default=str))
        return self._records[key]

    def update(self, record: IncidentRecord) -> IncidentRecord:
        stored = self._require(record.incident_id)
        check_transition(stored, record)
        self._records[record.incident_id] = replace(record, url=stored.url)
        return self._records[record.incident_id]

    def find(self, incident_id: str) -> IncidentRecord | None:
        return self._records.get(incident_id)

    def history(self, service: str, limit: int = 100) -> tuple[IncidentRecord, ...]:
        found = [record for record in self._records.values() if record.service == service]
        return tuple(sorted(found, key=lambda r: r.opened_at, reverse=True)[:limit])

    def decision(self, incident_id: str) -> Mapping[str, Any]:
        self._require(incident_id)
        return self._decisions[incident_id]

    def publish(
        self, incident_id: str, files: Mapping[str, Path], metrics: Mapping[str, float]
    ) -> str:
        self._require(incident_id)
        for name, path in files.items():
            parts = name.split("/")
            if not all(parts) or {".", ".."} & set(parts):
                raise BadInput(f"'{name}' cannot be the name of a file of an incident")
            if not path.is_file():
                raise BadInput("does not exist", file=path)
            self.files.setdefault(incident_id, {})[name] = path.read_bytes()
        self.metrics.setdefault(incident_id, {}).update(metrics)
        return self._records[incident_id].url

    def _require(self, incident_id: str) -> IncidentRecord:
        if incident_id not in self._records:
            raise BadInput(f"there is no incident '{incident_id}'")
        return self._records[incident_id]
