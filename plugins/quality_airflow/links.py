"""The buttons on a task in Airflow's page that lead to MLflow."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink


class ReportLink(BaseOperatorLink):
    """The report of the run, as ``publish`` stored it."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the address that the task has just learned; empty for a run that was not stored."""
        return getattr(operator, "report_url", "") or ""


class SnapshotLink(BaseOperatorLink):
    """The snapshot in MLflow's registry."""

    name = "Snapshot"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the address that the task has just learned; empty when nothing was created."""
        return getattr(operator, "snapshot_url", "") or ""


class PlanLink(BaseOperatorLink):
    """The plan of a rollback, as a page."""

    name = "Plan"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the address of the page that the task has just written; empty without a plan."""
        return getattr(operator, "plan_url", "") or ""
