"""The audit trail in MLflow, which keeps no history of aliases itself.

One entry is one run of the experiment ``quality/<service>/audit``. A run is made in a single
request before the action is tried, and closed after it: the trail only grows, two writers cannot
overwrite each other, and an action whose process died is seen as unfinished.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from quality_lib.adapters.mlflow.server import MlflowServer
from quality_lib.snapshots.audit import AuditEntry, Result, entry_from_json

T_ENTRY = "quality.audit"

_RESULTS = {"FINISHED": Result.DONE, "FAILED": Result.FAILED}


class MlflowAudit:
    """Appends to and reads the trail of each service."""

    def __init__(self, server: MlflowServer) -> None:
        self._server = server

    @contextmanager
    def action(self, client: Any, service: str, entry: AuditEntry) -> Generator[None]:
        """Write the entry, run the body, and write down how it ended."""
        alias = entry.detail.get("alias", "")
        run = client.create_run(
            self._experiment(client, service),
            start_time=int(entry.at.timestamp() * 1000),
            run_name=f"{entry.action.value} {alias or entry.snapshot_id[:12]}",
            tags={T_ENTRY: entry.to_json()},
        )
        try:
            yield
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                client.set_terminated(run.info.run_id, status="FAILED")
            raise
        client.set_terminated(run.info.run_id, status="FINISHED")

    def entries(self, client: Any, service: str) -> tuple[AuditEntry, ...]:
        """Return the trail, oldest first; a service without any has an empty one."""
        name = self._name(service)
        if client.get_experiment_by_name(name) is None:
            return ()
        found: list[AuditEntry] = []
        token = None
        while True:
            page = client.search_runs(
                [self._server.experiment(client, name)], max_results=1000, page_token=token
            )
            found += [
                entry_from_json(
                    run.data.tags[T_ENTRY], _RESULTS.get(run.info.status, Result.UNKNOWN)
                )
                for run in page
                if T_ENTRY in run.data.tags
            ]
            token = page.token
            if not token:
                return tuple(sorted(found, key=lambda entry: entry.at))

    def _experiment(self, client: Any, service: str) -> str:
        return self._server.experiment(client, self._name(service))

    @staticmethod
    def _name(service: str) -> str:
        return f"quality/{service}/audit"
