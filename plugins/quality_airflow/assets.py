"""The assets that carry health and snapshots through Airflow's asset graph.

The services are known only when the configuration is read, inside a task. So the two fixed assets hold
state, and an alias turns into one asset per service when an event is emitted.

They have no ``scheme://`` address: for one, Airflow loads the address handlers of every installed provider
while parsing, boto3 among them, which costs a second.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

HEALTH = Asset("llm/health")
"""Its state store remembers, per service, what was told last (see ``alerting.py``)."""

LOGS = Asset("llm/logs")
"""Its state store remembers, per service and depth, up to where the production log was scored."""

EVIDENCE = Asset("llm/evidence")
"""An event of it says that a result of some service has just been stored: ``decide_rollback`` looks anew.

The events of ``llm/health/…`` come too early for that: they tell the verdict before it lies in MLflow.
"""

ROLLBACK = Asset("llm/rollback")
"""Its state store remembers, per service, the rollback that goes on: step, driver and starting weights."""

HEALTH_EVENTS = AssetAlias(name="llm/health/by-service")
SNAPSHOT_EVENTS = AssetAlias(name="llm/snapshot/by-service")
SCORE_EVENTS = AssetAlias(name="llm/scores/by-service")


def service_health(service: str) -> Asset:
    """Return the asset of one service's health; its events carry the verdict."""
    return Asset(f"llm/health/{service}")


def service_snapshot(service: str) -> Asset:
    """Return the asset of one service's snapshots; its events carry the snapshot id."""
    return Asset(f"llm/snapshot/{service}")


def service_scores(service: str) -> Asset:
    """Return the asset of one service's log scores; its events carry rate and verdict."""
    return Asset(f"llm/scores/{service}")
