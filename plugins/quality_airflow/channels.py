"""The ways an alert leaves Airflow: JSON by POST, and Slack. Each is an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quality_airflow import slack

if TYPE_CHECKING:
    from quality_lib.settings import AlertSettings

TIMEOUT_S = 10


@dataclass(frozen=True)
class Channel:
    """One way, with the connection that the configuration names for it."""

    name: str
    """Also part of the key of what was told by it; empty for JSON, the first one there was."""
    conn_id: str
    send: Callable[[str, Mapping[str, Any]], int]
    """Connection and event in, HTTP status out; anything else is an exception."""


def configured(alerts: AlertSettings) -> tuple[Channel, ...]:
    """Return the channels that the configuration names; none: the task log alone."""
    return tuple(
        Channel(name, conn_id, SENDERS[name])
        for name, conn_id in (("", alerts.http_conn_id), ("slack", alerts.slack_conn_id))
        if conn_id
    )


def post_json(conn_id: str, event: Mapping[str, Any]) -> int:
    """Send the event as it is."""
    from airflow.providers.http.hooks.http import HttpHook

    hook = HttpHook(method="POST", http_conn_id=conn_id)
    # The session carries the connection's login and headers. hook.run() would log the address.
    with hook.get_conn() as session:
        response = session.post(hook.base_url, json=event, timeout=TIMEOUT_S, allow_redirects=False)
    return int(response.status_code)


def post_to_slack(conn_id: str, event: Mapping[str, Any]) -> int:
    """Send the event as a short message to the incoming webhook; the hook raises on any other answer."""
    from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook

    text, blocks = slack.message(event)
    # No retries inside the callback: a dead Slack must not hold a task, and the next result tells it again.
    hook = SlackWebhookHook(slack_webhook_conn_id=conn_id, timeout=TIMEOUT_S, retry_handlers=[])
    response = hook.send(text=text, blocks=blocks, unfurl_links=False, unfurl_media=False)
    return int(response.status_code)


SENDERS: Mapping[str, Callable[[str, Mapping[str, Any]], int]] = {
    "": post_json,
    "slack": post_to_slack,
}
