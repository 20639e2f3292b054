"""Registers the package with Airflow: the buttons on tasks that lead to MLflow."""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin
from quality_airflow.links import PlanLink, ReportLink, SnapshotLink


class QualityPlugin(AirflowPlugin):
    """The plugin ``quality``."""

    name = "quality"
    operator_extra_links: ClassVar[list[object]] = [ReportLink(), SnapshotLink(), PlanLink()]
