"""The task of the DAG ``prune``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from quality_airflow.commands import result_of
from quality_airflow.operators import LibraryOperator


class Prune(LibraryOperator):
    """Removes what a service's retention no longer keeps; in a dry run it only lists it."""

    template_fields: Sequence[str] = ("service",)

    def __init__(self, *, service: str, **kwargs: Any) -> None:
        super().__init__(map_index_template="{{ task.service }}", **kwargs)
        self.service = service

    def execute(self, context: Any) -> dict[str, Any]:
        """Return what was removed, or would be."""
        arguments = ["prune", "--service", self.service]
        arguments += ["--dry-run"] if context["params"]["dry_run"] else []
        outcome = self.run_command(*arguments)
        result = result_of(outcome, "prune")
        if result is None:
            raise AirflowFailException(f"prune: {outcome.message}")
        self.log.info("%s", result.get("headline") or result)
        return dict(result)
