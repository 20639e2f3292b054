"""An alert as a Slack message in Block Kit. Pure: the event that is sent as JSON in, text and blocks out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_HEADLINE = 400
MAX_REASONS = 3
MAX_REASON = 200
_SIGN = {
    "critical": ":red_circle:",
    "error": ":red_circle:",
    "warning": ":large_orange_circle:",
    "info": ":large_green_circle:",
}
_TITLE = {
    "quality_bad": "answers are bad",
    "low_quality": "users get bad answers",
    "no_data": "nothing could be judged",
    "checker_broken": "the check itself failed",
    "recovered": "healthy again",
    "not_recorded": "a result could not be stored",
    "recorded": "results are stored again",
    "registration_failed": "no snapshot was registered",
    "snapshot_registered": "snapshot registered",
    "stale_data": "nobody is looking",
    "fresh_data": "results arrive again",
    "rollback_advised": "a rollback is advised",
    "rollback_not_started": "a rollback could not be started",
    "rollback_started": "rollback started",
    "rollback_step": "rollback",
    "rollback_step_failed": "a step of the rollback failed",
    "approval_wanted": "rollback waits for your approval",
    "rollback_aborted": "rollback aborted",
    "abort_failed": "the abort of a rollback failed",
    "rollback_unfinished": "a rollback is not finished",
    "rollback_done": "rollback done",
    "staging_left": "a staging instance is still running",
    "prune_failed": "old data could not be removed",
}
_LINK = {
    "approve": "Approve or reject",
    "post_mortem": "Post-mortem",
    "report": "Report",
    "plan": "Plan",
    "mlflow": "MLflow",
    "airflow": "Airflow",
}
"""In the order in which they are shown: what to do first, where to look last."""


def message(event: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the plain text for the notification and the blocks; a missing part is left out."""
    name = str(event.get("name") or "alert")
    title = _TITLE.get(name, name.replace("_", " "))
    if name == "quality_bad" and _mapping(event.get("verdict")).get("summary") == "healthy":
        title = "answers have changed"
    service = str(event.get("service") or "all")
    headline = _cut(event.get("headline"), MAX_HEADLINE)
    sign = _SIGN.get(str(event.get("severity")), ":white_circle:")
    lines = [f"{sign} *{_escape(service)}: {title}*"]
    if headline and headline != title:
        lines.append(_escape(headline))
    lines += [f"• {_escape(reason)}" for reason in _reasons(event, headline)]
    blocks = [_section("\n".join(lines))]
    if foot := _foot(event):
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": foot}]})
    return f"{_escape(service)}: {title}. {_escape(headline)}".strip(), blocks


def _reasons(event: Mapping[str, Any], headline: str) -> list[str]:
    reasons = event.get("reasons")
    sentences = [
        _cut(reason.get("sentence"), MAX_REASON)
        for reason in (reasons if isinstance(reasons, Sequence) else ())
        if isinstance(reason, Mapping)
    ]
    return [s for s in sentences if s and s != headline][:MAX_REASONS]


def _foot(event: Mapping[str, Any]) -> str:
    links = _mapping(event.get("links"))
    parts = [f"<{_url(links[name])}|{label}>" for name, label in _LINK.items() if links.get(name)]
    since, at = str(event.get("since") or ""), str(event.get("at") or "")
    if event.get("reminder"):
        parts.append(f"still so, since {_escape(_minute(since))}")
    elif at:
        parts.append(_escape(_minute(at)))
    return "  ·  ".join(parts)


def _minute(time: str) -> str:
    return time[:16].replace("T", " ") + (" UTC" if time.endswith("+00:00") else "")


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escape(text: str) -> str:
    """Escape what Slack gives a meaning: a model's answer must not ping a channel or fake a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _url(address: Any) -> str:
    return _escape(str(address)).replace("|", "%7C").replace(" ", "%20")


def _cut(value: Any, size: int) -> str:
    text = " ".join(str(value or "").split())
    return text if len(text) <= size else text[: size - 1] + "…"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
