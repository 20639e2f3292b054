"""Runs a DAG file of the repository in this process and tells how every task ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.dags.conftest import ROOT


@dataclass(frozen=True)
class Ended:
    """A finished DAG run."""

    state: str
    run_id: str
    tasks: Mapping[tuple[str, str], str]
    """State by task id and service (empty for a task that is not mapped)."""
    tries: Mapping[tuple[str, str], int]


def run_dag(
    dag_id: str, at: datetime | None = None, _time_out: timedelta | None = None, **conf: Any
) -> Ended:
    """Run a DAG as a user would trigger it; retries come without their delay.

    With ``_time_out`` the GPU tasks have only this long, and no retries.
    """
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(ROOT / "dags" / f"{dag_id}.py")
    assert not bag.import_errors
    dag = bag.dags[dag_id]
    for task in dag.tasks:
        task.retry_delay, task.retry_exponential_backoff = timedelta(0), 0
        for rule in getattr(task.retry_policy, "rules", ()):
            rule.retry_delay = timedelta(0)
        if _time_out is not None and task.pool == "gpu":
            task.execution_timeout, task.retries = _time_out, 0
    more = {} if at is None else {"logical_date": at, "run_after": at}
    run = dag.test(run_conf=conf or None, **more)
    instances = run.get_task_instances()
    label = {ti: (ti.task_id, ti.rendered_map_index or _index(ti.map_index)) for ti in instances}
    return Ended(
        state=str(run.state),
        run_id=run.run_id,
        tasks={label[ti]: str(ti.state) for ti in instances},
        tries={label[ti]: ti.try_number for ti in instances},
    )


def _index(map_index: int) -> str:
    return "" if map_index < 0 else str(map_index)
