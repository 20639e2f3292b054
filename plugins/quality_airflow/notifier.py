"""The callback of every task: one event to the task log and, when configured, to a receiver and to Slack.

Whatever goes wrong here is logged and counted (``quality.alerts.failed``) and never fails a task. An
event that did not arrive is told again with the next result. Each channel has a memory of its own, so a
dead one makes no other repeat itself.
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
from quality_airflow.channels import SENDERS, Channel, configured
from quality_airflow.events import Event, Facts, build

_GOOD_EVENTS = {Event.RECOVERED, Event.RECORDED, Event.SNAPSHOT_REGISTERED, Event.FRESH_DATA}
_TOPIC = {
    Event.RECORDED: "record",
    Event.NOT_RECORDED: "record",
    Event.REGISTRATION_FAILED: "registration",
    Event.SNAPSHOT_REGISTERED: "registration",
    Event.STALE_DATA: "stale",
    Event.FRESH_DATA: "stale",
}
_OWN_WORDS = {Event.QUALITY_BAD, Event.LOW_QUALITY, Event.NO_DATA, Event.ROLLBACK_ADVISED}
"""Their headline comes from the result; the others tell the error that ended the task."""
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
        is_logged = False
        for channel in _channels(store) or (None,):
            key = f"{topic}:{facts.service}" + (
                f":{channel.name}" if channel and channel.name else ""
            )
            body, standing = self._next(store, key, event, facts)
            if body is not None:
                self._write(body) if not is_logged else None
                is_logged = True
                if channel is None or self._deliver(body, channel):
                    standing = alerting.delivered(standing, facts.at)
            if store is not None:
                store.set(key, standing.plain())

    def _next(
        self, store: Any | None, key: str, event: Event, facts: Facts
    ) -> tuple[dict[str, Any] | None, alerting.Standing]:
        """Return what to send, if anything, and the standing after the result."""
        previous = alerting.Standing.read(store.get(key)) if store is not None else None
        condition = alerting.GOOD if event in _GOOD_EVENTS else event.value
        step = alerting.advance(previous, condition, _detail(facts), facts.at)
        standing = step.standing
        if not step.tell and event is not Event.SNAPSHOT_REGISTERED:
            if condition != alerting.GOOD:
                self.log.info(
                    "%s: still %s, told at %s", facts.service, condition, standing.told_at
                )
            return None, standing
        since = standing.trouble_since if step.recovered else standing.since
        moment = datetime.fromisoformat(since or standing.since)
        return build(event, facts, since=moment, reminder=step.reminder), standing

    def _write(self, body: Mapping[str, Any]) -> None:
        from airflow.sdk.log import redact

        text = json.dumps(redact(dict(body)), ensure_ascii=False)
        say = self.log.info if body["severity"] == "info" else self.log.warning
        say("alert %s", text)

    def _deliver(self, body: dict[str, Any], channel: Channel) -> bool:
        from airflow.sdk.log import redact

        try:
            status = channel.send(channel.conn_id, redact(body))
        except Exception as error:  # noqa: BLE001 - any client, DNS, TLS or secrets-backend failure
            # Only the type: the message of a client error repeats the address, and that is often secret.
            return self._failed(
                f"no answer by connection '{channel.conn_id}': {type(error).__name__}"
            )
        if status >= 300:
            return self._failed(f"the receiver of connection '{channel.conn_id}' answered {status}")
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
    service = run.get("service") or getattr(task, "service", None) or _asked_for(context)
    links = {
        **_mapping(getattr(task, "alert_links", None)),
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
    elif event not in _OWN_WORDS and error:
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
    if event is Event.DECIDED:
        return _AFTER_DECISION.get(str(run.get("action")))
    if event is Event.ROLLBACK_STARTED and run.get("dry_run"):
        return None
    if event is Event.ROLLBACK_STEP_FAILED and run.get("state") in _ABORTED:
        return None
    if event is Event.WENT_BACK:
        if run.get("finished"):
            return Event.ROLLBACK_DONE
        return Event.ROLLBACK_ABORTED if run.get("went_back") else None
    if event is Event.ABORT_FAILED and run.get("state") == "bad":
        # A check on the way forward; no way back was tried yet.
        return Event.ROLLBACK_STEP_FAILED
    return event


_ABORTED = {"abort_requested", "aborted"}
"""Somebody ended the rollback: the abort tells it, the step that was stopped does not."""
_AFTER_DECISION = {"none": Event.RECOVERED, "alert": Event.ROLLBACK_ADVISED}
"""Waiting for more evidence tells nothing; a rollback tells of itself as soon as it is planned."""


def _detail(facts: Facts) -> str:
    """Return what makes one alert of a kind another one than the last."""
    run = facts.run
    if facts.incident_id:
        return f"{facts.incident_id}/{run.get('step', '')}"
    return f"{run.get('summary', '')}/{run.get('changed', '')}"


def _asked_for(context: Any) -> str | None:
    """Return the service of the form, where the task itself could not say any more."""
    service = _mapping(context.get("params")).get("service")
    return service if isinstance(service, str) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _state_store(context: Any) -> Any | None:
    """Return the store of ``HEALTH``; none in the callbacks that run without a worker."""
    stores = context.get("asset_state_store")
    return None if stores is None else stores[HEALTH]


def _channels(store: Any | None) -> tuple[Channel, ...]:
    """Return the configured channels; while the configuration is broken, the last ones that it named."""
    from airflow.sdk.exceptions import AirflowException

    try:
        channels = configured(configuration.settings().alerts)
    except AirflowException:
        known = {name: store.get(_connection_key(name)) for name in SENDERS} if store else {}
        return tuple(Channel(name, conn, SENDERS[name]) for name, conn in known.items() if conn)
    if store is not None:
        named = {channel.name: channel.conn_id for channel in channels}
        for name in SENDERS:
            if store.get(_connection_key(name)) != named.get(name, ""):
                store.set(_connection_key(name), named.get(name, ""))
    return channels


def _connection_key(channel: str) -> str:
    return f"{_CONNECTION_KEY} {channel}".strip()
