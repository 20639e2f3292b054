"""The receiver keeps what was posted and wakes whoever waits."""

from __future__ import annotations

import httpx

from quality_lib.adapters.stack.alert_receiver import receiving


def test_a_posted_object_is_kept() -> None:
    with receiving() as alerts:
        assert httpx.post(alerts.url, json={"name": "quality_bad"}).status_code == 204
        assert alerts.wait_for("quality_bad", 5.0)
        assert alerts.received == [{"name": "quality_bad"}]


def test_what_never_comes_is_not_waited_for_for_ever() -> None:
    with receiving() as alerts:
        assert not alerts.wait_for("quality_bad", 0.05)


def test_no_json_is_refused() -> None:
    with receiving() as alerts:
        assert httpx.post(alerts.url, content=b"{").status_code == 400
        assert alerts.received == []
