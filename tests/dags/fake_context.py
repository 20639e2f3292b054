"""What an operator sees of Airflow, without Airflow: state stores, its task instance, its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Store:
    """A state store in memory."""

    kept: dict[str, Any] = field(default_factory=dict)

    def get(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value


class Stores(dict[Any, Store]):
    """The store of every asset, made when it is first asked for."""

    def __missing__(self, asset: Any) -> Store:
        return self.setdefault(asset, Store())


@dataclass
class Ti:
    """A task instance; the runs that go on and the states of tasks are given."""

    plan: Any = None
    going_on: tuple[str, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    map_index: int = -1
    task_id: str = "task"
    dag_id: str = "rollback"
    run_id: str = "rollback__chat-abc-0"
    log_url: str = "http://airflow/dags/rollback/runs/r/tasks/task?try_number=1"
    end_date: datetime = NOW
    pushed: dict[str, Any] = field(default_factory=dict)

    def xcom_pull(self, **_: Any) -> Any:
        return self.plan

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def get_dr_count(self, *, run_ids: list[str], **_: Any) -> int:
        return len({*run_ids} & {*self.going_on})

    def get_task_states(self, **_: Any) -> Mapping[str, Any]:
        return {self.run_id: self.states}


def context(ti: Ti | None = None, **params: Any) -> dict[str, Any]:
    """Return a context with empty state stores."""
    ti = ti or Ti()
    return {
        "ti": ti,
        "run_id": ti.run_id,
        "params": params,
        "asset_state_store": Stores(),
        "outlet_events": {},
    }
