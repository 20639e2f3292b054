"""Fields that the forms of several DAGs share."""

from __future__ import annotations

from airflow.sdk import Param

from quality_airflow.configuration import ALL_SERVICES


def one_or_all_services() -> Param:
    """Return the field for a service's name, or all of them, as ``ListServices`` reads it."""
    return Param(
        ALL_SERVICES,
        type="string",
        minLength=1,
        title="Service",
        description="A name from quality.yaml, or all.",
    )
