"""The configuration that the local stack writes is one that the library reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.adapters.stack.local_config import write_local_config
from quality_lib.settings import load


@pytest.mark.parametrize("connection", [None, "quality_alerts"])
def test_what_is_written_is_read_back(tmp_path: Path, connection: str | None) -> None:
    path = tmp_path / "home" / "quality.yaml"
    write_local_config(
        path,
        service="chat",
        endpoint="http://127.0.0.1:1234",
        model="chat",
        weights=tmp_path / "wéights: #1",
        mlflow="http://127.0.0.1:1235",
        work_dir=tmp_path / "runs",
        engine_args=("--max-model-len", "2048"),
        stable_hours=0.0,
        alert_connection=connection,
    )
    settings = load(path)
    chat = settings.service("chat")
    assert (chat.endpoint, chat.weights) == ("http://127.0.0.1:1234", tmp_path / "wéights: #1")
    assert (chat.engine.kind, chat.engine.args) == ("local", ("--max-model-len", "2048"))
    assert chat.stable_hours == 0.0
    assert settings.stores.mlflow == "http://127.0.0.1:1235"
    assert settings.stores.work_dir == tmp_path / "runs"
    assert settings.alerts.http_conn_id == connection


def test_a_route_is_written_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "quality.yaml"
    write_local_config(
        path,
        service="chat",
        endpoint="http://127.0.0.1:1234",
        model="chat",
        weights=tmp_path,
        mlflow="http://127.0.0.1:1235",
        work_dir=tmp_path,
        route=("127.0.0.1:1234", tmp_path / "route" / "x"),
    )
    route = load(path).service("chat").route
    assert (route.kind, route.listen) == ("nginx", "127.0.0.1:1234")
    assert route.folder == tmp_path / "route" / "x"
