"""Incidents in MLflow: one run each, opened with its decision, closed with its post-mortem.

The whole record is one tag, so that a change is one request and a reader never sees half of it.
``design/015-incidents-in-mlflow.md`` tells how two openers at once end with one incident.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality_lib.adapters.mlflow.runs import KIND_TAG, RUN_ID_TAG
from quality_lib.adapters.mlflow.server import MlflowServer
from quality_lib.errors import BadInput
from quality_lib.rollout.incident import IncidentRecord
from quality_lib.rollout.incident_json import check_transition, record_from_json, record_to_json

KIND = "incident"
RECORD_TAG = "quality.incident"
T_POST_MORTEM = "quality.post_mortem"
DECISION = "decision.json"
POST_MORTEM = "post-mortem.html"

_STATUS = {"done": "FINISHED", "aborted": "KILLED", "failed": "FAILED"}
_LONGEST_NOTE = 4000


class MlflowIncidents:
    """``IncidentStore`` over an MLflow server (or a file or database address)."""

    def __init__(self, uri: str) -> None:
        self._server = MlflowServer(uri)

    def open(self, record: IncidentRecord, decision: Mapping[str, Any]) -> IncidentRecord:
        """Keep a new incident with the decision behind it; one that is there stays as it is."""
        with self._server.session() as client:
            experiment = self._server.experiment(client, _experiment_name(record.service))
            run = self._first(client, [experiment], record.incident_id)
            if run is None:
                run = self._create(client, experiment, record)
            if not _has(client, run, DECISION):
                self._log_decision(client, run, decision)
            return self._shown(run) or record

    def update(self, record: IncidentRecord) -> IncidentRecord:
        """Write down how the incident stands now; a closed one is never opened again."""
        with self._server.session() as client:
            run = self._require(client, record.incident_id)
            stored = _record(run)
            if stored is not None:
                check_transition(stored, record)
            _log_tags(client, run.info.run_id, _tags(record))
            status = _STATUS.get(record.state)
            if status is not None:
                client.set_terminated(run.info.run_id, status=status)
            return record

    def find(self, incident_id: str) -> IncidentRecord | None:
        """Return one incident, or ``None``."""
        with self._server.session() as client:
            run = self._first(client, self._experiments(client), incident_id)
            return None if run is None else self._shown(run)

    def history(self, service: str, limit: int = 100) -> tuple[IncidentRecord, ...]:
        """Return a service's incidents, newest first."""
        with self._server.session() as client:
            experiment = client.get_experiment_by_name(_experiment_name(service))
            if experiment is None:
                return ()
            runs = client.search_runs(
                [experiment.experiment_id],
                filter_string=f"tags.`{KIND_TAG}` = '{KIND}'",
                order_by=["attributes.start_time DESC"],
                max_results=limit,
            )
            # Of two runs of one incident the first one made is it; here that is the later one.
            records = {r.incident_id: r for run in runs if (r := self._shown(run)) is not None}
        return tuple(sorted(records.values(), key=lambda r: r.opened_at, reverse=True))

    def decision(self, incident_id: str) -> Mapping[str, Any]:
        """Return the decision that the incident was opened with; empty when it was not kept."""
        with self._server.session() as client:
            run = self._require(client, incident_id)
            if not _has(client, run, DECISION):
                return {}
            with tempfile.TemporaryDirectory(prefix="incident-") as folder:
                got = client.download_artifacts(run.info.run_id, DECISION, folder)
                found = json.loads(Path(got).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}

    def publish(
        self, incident_id: str, files: Mapping[str, Path], metrics: Mapping[str, float]
    ) -> str:
        """Keep files (name → path) and numbers of an incident; the same again replaces them."""
        for name in files:
            _check_name(name)
        with self._server.session() as client:
            run = self._require(client, incident_id)
            run_id = run.info.run_id
            for name, path in sorted(files.items()):
                _upload(client, run_id, name, path)
            for name, value in metrics.items():
                client.log_metric(run_id, name, float(value), step=0)
            has_post_mortem = POST_MORTEM in files or T_POST_MORTEM in run.data.tags
            if has_post_mortem:
                _log_tags(client, run_id, {T_POST_MORTEM: "true"})
            return self._page(run, has_post_mortem)

    def _create(self, client: Any, experiment: str, record: IncidentRecord) -> Any:
        tags = {KIND_TAG: KIND, RUN_ID_TAG: record.incident_id, **_tags(record)}
        made = client.create_run(experiment, run_name=record.incident_id, tags=tags)
        first = self._first(client, [experiment], record.incident_id) or made
        if first.info.run_id != made.info.run_id:
            # Somebody else opened the same incident in between, and was first.
            client.delete_run(made.info.run_id)
        return first

    @staticmethod
    def _first(client: Any, experiments: list[str], incident_id: str) -> Any | None:
        """Return the run that is the incident: the first one made, the same for every reader."""
        if not experiments or "'" in incident_id:
            return None
        runs = client.search_runs(
            experiments,
            filter_string=f"tags.`{KIND_TAG}` = '{KIND}' and tags.`{RUN_ID_TAG}` = '{incident_id}'",
            max_results=100,
        )
        return min(runs, key=lambda run: (run.info.start_time, run.info.run_id), default=None)

    def _require(self, client: Any, incident_id: str) -> Any:
        run = self._first(client, self._experiments(client), incident_id)
        if run is None:
            raise BadInput(
                f"there is no incident '{incident_id}' in {self._server.name}",
                fix="list them: quality incident list --service NAME",
            )
        return run

    @staticmethod
    def _experiments(client: Any) -> list[str]:
        found: list[str] = []
        token = None
        while True:
            page = client.search_experiments(
                filter_string="name LIKE 'quality/%/incidents'", page_token=token
            )
            found += [experiment.experiment_id for experiment in page]
            token = page.token
            if not token:
                return found

    def _shown(self, run: Any) -> IncidentRecord | None:
        return _record(run, self._page(run, T_POST_MORTEM in run.data.tags))

    def _page(self, run: Any, has_post_mortem: bool) -> str:
        url = self._server.page(f"experiments/{run.info.experiment_id}/runs/{run.info.run_id}")
        return f"{url}/artifacts/{POST_MORTEM}" if url and has_post_mortem else url

    @staticmethod
    def _log_decision(client: Any, run: Any, decision: Mapping[str, Any]) -> None:
        text = json.dumps(decision, ensure_ascii=False, indent=1, sort_keys=True, default=str)
        with tempfile.TemporaryDirectory(prefix="incident-") as folder:
            file = Path(folder) / DECISION
            file.write_text(text, encoding="utf-8")
            client.log_artifact(run.info.run_id, str(file))


def _experiment_name(service: str) -> str:
    return f"quality/{service}/incidents"


def _tags(record: IncidentRecord) -> dict[str, str]:
    return {
        RECORD_TAG: record_to_json(record),
        "quality.service": record.service,
        "quality.state": record.state,
        "quality.bad_snapshot_id": record.bad_snapshot_id or "",
        "quality.target_snapshot_id": record.target_snapshot_id or "",
        "mlflow.note.content": record.reason[:_LONGEST_NOTE],
    }


def _log_tags(client: Any, run_id: str, tags: Mapping[str, str]) -> None:
    """Set all tags in one request."""
    from mlflow.entities import RunTag

    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def _record(run: Any, url: str = "") -> IncidentRecord | None:
    """Read a run back; ``None`` for one that somebody else has written or altered."""
    try:
        return record_from_json(run.data.tags[RECORD_TAG], url)
    except (KeyError, BadInput):
        return None


def _has(client: Any, run: Any, name: str) -> bool:
    return any(item.path == name for item in client.list_artifacts(run.info.run_id))


def _check_name(name: str) -> None:
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name:
        raise BadInput(f"'{name}' cannot be the name of a file of an incident", fix="use a/b.json")


def _upload(client: Any, run_id: str, name: str, path: Path) -> None:
    if not path.is_file():
        raise BadInput("does not exist", file=path)
    folder, _, file_name = name.rpartition("/")
    if path.name == file_name:
        client.log_artifact(run_id, str(path), folder or None)
        return
    with tempfile.TemporaryDirectory(prefix="incident-") as temporary:
        # MLflow names an artifact after the file it comes from.
        link = Path(temporary) / file_name
        link.symlink_to(path.absolute())
        client.log_artifact(run_id, str(link), folder or None)
