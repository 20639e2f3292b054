"""The task of the DAG ``abort_rollback``: the button for a rollback that somebody wants to end now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import timezone
from airflow.sdk.exceptions import AirflowFailException

from quality_airflow import incident_state
from quality_airflow.assets import HEALTH, ROLLBACK
from quality_airflow.commands import result_of
from quality_airflow.links import ReportLink
from quality_airflow.operators import LibraryOperator
from quality_airflow.rollback import user_of


class PressAbort(LibraryOperator):
    """Ends the rollback of a service and restores the weights it started with.

    The library stops the process at work and goes back itself, so this also works while the rollback
    waits for an approval, and when its DAG run is gone.
    """

    operator_extra_links = (ReportLink(),)

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("inlets", [HEALTH, ROLLBACK])
        super().__init__(**kwargs)
        self.report_url = ""
        self.run: Mapping[str, Any] = {}
        self.alert_links: dict[str, str] = {}

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what the library said; fail when there is nothing to abort, or no way back."""
        params = context["params"]
        service, user = str(params["service"]), user_of(context)
        self.run = {"service": service, "step": "abort"}
        outcome = self.run_command(
            "rollback",
            "abort",
            "--service",
            service,
            "--reason",
            str(params["reason"]),
            "--by",
            user,
        )
        result = result_of(outcome, "rollback abort")
        if result is None or not result.get("done"):
            said = (result or {}).get("headline") or outcome.message
            raise AirflowFailException(f"rollback abort: {said}")
        self.report_url = str(result.get("url") or "")
        self.alert_links = {"post_mortem": self.report_url}
        self.run = {**result, "service": service, "step": "abort", "went_back": True}
        self._keep(context, service, result)
        return dict(result)

    def _keep(self, context: Any, service: str, result: Mapping[str, Any]) -> None:
        store = context["asset_state_store"][ROLLBACK]
        progress = incident_state.recall(store, service)
        if progress is None or progress.incident_id != result.get("incident_id"):
            return  # begun outside Airflow
        ended = progress.after("abort", result, timezone.utcnow().isoformat(), moved=False)
        incident_state.remember(store, service, incident_state.closed(ended, "aborted"))
