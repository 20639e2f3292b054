"""The callback of every task: one JSON event to the task log and, when configured, to a receiver.

Whatever goes wrong here is logged and counted (``quality.alerts.failed``) and never fails a task. An
event that did not arrive is told again with the next result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from airflow.sdk import BaseNotifier, timezone
from airflow.sdk.observability import stats

from quality_airflow import alerting, configuration
from quality_airflow.assets import HEALTH
from quality_airflow.events import Event, Facts, build

TIMEOUT_S = 10.0
_GOOD_EVENTS = {Event.RECOVERED, Event.RECORDED, Event.SNAPSHOT_REGISTERED}
_TOPIC = {
    Event.RECORDED: "record",
    Event.NOT_RECORDED: "record",
    Event.REGISTRATION_FAILED: "registration",
    Event.SNAPSHOT_REGISTERED: "registration",
}
_CONNECTION_KEY = "alert connection"


class QualityNotifier(BaseNotifier):
    """Tell one event of a task's end, once per change and again every six hours.

    The events ``recovered`` and ``recorded`` are silent unless trouble of their topic was told before.
    ``topic`` keeps apart what different checks say of one service: a good score of the log is no
    recovery of a bad golden run.
    """

    template_fields = ()

    def __init__(self, event: str, topic: str = "") -> None:
        super().__init__()
        self.event = Event(event)
        self.topic = topic

    def notify(self, context: Any) -> None:
        """Send what is worth telling. The context may lack anything: a crashed worker leaves little."""
        try:
            self._notify(context)
        except Exception as error:  # noqa: BLE001 - an alert must never fail the task it is about
            self._failed(f"the alert could not be made: {type(error).__name__}: {error}")

    def _notify(self, context: Any) -> None:
        event = _true_event(self.event, context)
        if event is None:
            return
        facts = facts_of(context, event)
        store = _state_store(context)
        topic = _TOPIC.get(event) or self.topic or "health"
        key = f"{topic}:{facts.service}"
        previous = alerting.Standing.read(store.get(key)) if store is not None else None
        condition = alerting.GOOD if event in _GOOD_EVENTS else event.value
        detail = f"{facts.run.get('summary', '')}/{facts.run.get('changed', '')}"
        step = alerting.advance(previous, condition, detail, facts.at)
        standing = step.standing
        if step.tell or event is Event.SNAPSHOT_REGISTERED:
            since = standing.trouble_since if step.recovered else standing.since
            body = build(
                event,
                facts,
                since=datetime.fromisoformat(since or standing.since),
                reminder=step.reminder,
            )
            if self._deliver(body, _connection_id(store)):
                standing = alerting.delivered(standing, facts.at)
        elif condition != alerting.GOOD:
            self.log.info("%s: still %s, told at %s", facts.service, condition, standing.told_at)
        if store is not None:
            store.set(key, standing.plain())

    def _deliver(self, body: dict[str, Any], conn_id: str | None) -> bool:
        from airflow.sdk.log import redact

        body = redact(body)
        text = json.dumps(body, ensure_ascii=False)
        self.log.warning("alert %s", text) if body["severity"] != "info" else self.log.info(
            "alert %s", text
        )
        if conn_id is None:
            return True
        try:
            status = _post(conn_id, body)
        except Exception as error:  # noqa: BLE001 - any client, DNS, TLS or secrets-backend failure
            # Only the type: the message of a client error repeats the address, and that is often secret.
            return self._failed(f"no answer by connection '{conn_id}': {type(error).__name__}")
        if status >= 300:
            return self._failed(f"the receiver of connection '{conn_id}' answered {status}")
        return True

    def _failed(self, why: str) -> bool:
        self.log.error("alert not delivered: %s; the next result tells it again", why)
        stats.incr("quality.alerts.failed")
        return False


def facts_of(context: Any, event: Event) -> Facts:
    """Return what the context of a callback tells; a missing part is an empty one."""
    task, ti = context.get("task"), context.get("task_instance") or context.get("ti")
    run = _mapping(getattr(task, "run", None))
    published = _mapping(getattr(task, "published", None))
    service = run.get("service") or getattr(task, "service", None)
    links = {
        "airflow": str(getattr(ti, "log_url", "") or ""),
        "report": str(published.get("report_url") or getattr(task, "report_url", "") or ""),
        "mlflow": str(published.get("run_url") or getattr(task, "snapshot_url", "") or ""),
    }
    headline = str(run.get("headline") or "")
    error = context.get("exception") or context.get("reason")
    if event is Event.RECOVERED:
        headline = f"healthy again: {headline}" if headline else "healthy again"
    elif event is Event.SNAPSHOT_REGISTERED:
        headline = str(getattr(task, "headline", "") or "a snapshot was registered")
    elif event not in {Event.QUALITY_BAD, Event.LOW_QUALITY, Event.NO_DATA} and error:
        headline = str(error)
    return Facts(
        service=service if isinstance(service, str) else configuration.ALL_SERVICES,
        at=getattr(ti, "end_date", None) or timezone.utcnow(),
        headline=headline,
        run=run,
        links=links,
        dag_id=str(getattr(ti, "dag_id", "") or ""),
        dag_run_id=str(getattr(ti, "run_id", "") or context.get("run_id") or ""),
    )


def _true_event(event: Event, context: Any) -> Event | None:
    """Return what really happened: a judge without a verdict must not accuse the model.

    None where the failed run has told it already, and where a window merely waits for more answers.
    """
    run = _mapping(getattr(context.get("task"), "run", None))
    if event in {Event.QUALITY_BAD, Event.LOW_QUALITY} and run.get("verdict") != "bad":
        return Event.CHECKER_BROKEN
    if event is Event.NO_DATA and (not run or run.get("waits")):
        return None
    return event


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _state_store(context: Any) -> Any | None:
    """Return the store of ``HEALTH``; none in the callbacks that run without a worker."""
    stores = context.get("asset_state_store")
    return None if stores is None else stores[HEALTH]


def _connection_id(store: Any | None) -> str | None:
    """Return the configured connection; while the configuration is broken, the last one that it named."""
    from airflow.sdk.exceptions import AirflowException

    try:
        conn_id = configuration.settings().alerts.http_conn_id
    except AirflowException:
        return (store.get(_CONNECTION_KEY) or None) if store is not None else None
    if store is not None and store.get(_CONNECTION_KEY) != (conn_id or ""):
        store.set(_CONNECTION_KEY, conn_id or "")
    return conn_id


def _post(conn_id: str, body: Mapping[str, Any]) -> int:
    from airflow.providers.http.hooks.http import HttpHook

    hook = HttpHook(method="POST", http_conn_id=conn_id)
    # The session carries the connection's login and headers. hook.run() would log the address.
    with hook.get_conn() as session:
        response = session.post(hook.base_url, json=body, timeout=TIMEOUT_S, allow_redirects=False)
    return int(response.status_code)
