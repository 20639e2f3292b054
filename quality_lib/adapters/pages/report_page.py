"""What every HTML report is made with: the template environment, visible text, moments in time.

A report is one self-contained file: no script, no external resource. Texts of users and models are
untrusted; everything is escaped and made visible.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import jinja2
from markupsafe import Markup

from quality_lib.adapters.pages.text_diff import visible


def page_environment() -> jinja2.Environment:
    """Return the environment that renders reports."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("quality_lib.adapters.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    return environment


def _finalize(value: Any) -> Any:
    """Make every plain text visible on its way into the page, whichever field it comes from."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def moment(text: str) -> str:
    """Write an ISO 8601 time for people; what is none stays as it is."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return text
    if time.tzinfo is not None:
        time = time.astimezone(UTC)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
