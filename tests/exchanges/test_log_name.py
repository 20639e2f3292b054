"""Names of files and objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from quality_lib.exchanges.log_name import LogName, hour_prefix, safe_name

AT = datetime(2026, 11, 29, 23, 44, 3, tzinfo=UTC)


@pytest.mark.parametrize("records", [None, 0, 17])
@pytest.mark.parametrize("service", ["chat", "my-chat-v2", "a.b_c"])
def test_a_name_is_read_back(service: str, records: int | None) -> None:
    name = LogName(service, "host_17_ab12", AT, 3, records)
    assert LogName.parse(str(name)) == name


def test_how_they_look() -> None:
    assert str(LogName("chat", "h_1", AT, 1)) == "chat-h_1-20261129T234403Z-000001.jsonl.open"
    done = LogName("chat", "h_1", AT, 1, 9)
    assert str(done) == "chat-h_1-20261129T234403Z-000001-n9.jsonl"
    assert done.object_key("/logs/x/") == f"logs/x/chat/dt=2026-11-29/hour=23/{done}.gz"
    assert done.object_key("") == f"chat/dt=2026-11-29/hour=23/{done}.gz"


@pytest.mark.parametrize(
    "name",
    [
        "notes.jsonl",
        "chat-h_1-20261129T234403Z-000001.jsonl",  # finished, but not counted
        "chat-h_1-20261129T234403Z-000001-n3.jsonl.open",
        "chat-h_1-20261399T234403Z-000001-n3.jsonl",
        "chat-h_1-20261129T234403Z-000001-n3.jsonl.gz",
        "../chat-h_1-20261129T234403Z-000001-n3.jsonl",
        ".shipping.lock",
        "",
    ],
)
def test_files_of_others_are_nobody_we_know(name: str) -> None:
    assert LogName.parse(name) is None


@pytest.mark.parametrize(
    ("given", "safe"),
    [("chat", "chat"), ("../x/y", "_x_y"), ("聊天", "__"), ("..", "_"), ("a b", "a_b"), ("", "_")],
)
def test_a_name_cannot_leave_its_folder(given: str, safe: str) -> None:
    assert safe_name(given) == safe


def test_the_hour_is_that_of_utc() -> None:
    east = AT.astimezone(timezone(timedelta(hours=5)))
    assert hour_prefix("p", "chat", east) == "p/chat/dt=2026-11-29/hour=23/"
