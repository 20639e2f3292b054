"""``quality route`` before a real nginx."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from quality_lib.adapters.machine import ports
from quality_lib.commands.route import app
from quality_lib.errors import BadInput, NoData
from tests.route_backends import Backends, until

Run = Callable[..., Any]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    listen = f"127.0.0.1:{ports.free_port()}"
    path = tmp_path / "quality.yaml"
    path.write_text(
        f"services:\n  chat: {{endpoint: 'http://{listen}', model: chat, weights: w,\n"
        f"         route: {{kind: nginx, listen: '{listen}', folder: route}}}}\n"
        f"  bare: {{endpoint: 'http://{listen}', model: chat, weights: w}}\n"
        f"  mine: {{endpoint: 'http://{listen}', model: chat, weights: w,\n"
        f"         route: {{kind: nginx, folder: mine}}}}\n"
    )
    return path


@pytest.fixture
def run(config: Path) -> Iterator[Run]:
    def call(*args: str, service: str = "chat") -> Any:
        words = [*args, "--service", service, "--config", str(config)]
        result = CliRunner().invoke(app, words, catch_exceptions=False, standalone_mode=False)
        assert result.exit_code == 0
        return json.loads(result.stdout) if "--json" in args else result.stdout

    yield call
    call("stop", "--grace", "1")


def test_an_operator_moves_traffic_and_sees_it(run: Run, config: Path) -> None:
    assert run("start", "--json")["running"] is True
    with pytest.raises(NoData, match="no instance yet"):
        run("show")
    with Backends() as backends:
        a, b, _ = backends.addresses.values()
        shares = (f"a={a}@100", f"b={b}@0")
        assert "would be: a 100 %, b 0 %" in run("apply", *shares, "--dry-run")
        with pytest.raises(NoData):
            run("show")
        run("apply", *shares)
        run("apply", "a=50", "b=50", "--mirror", "a", "--mirror-percent", "1")
        shown = run("show", "--json")
        assert [one["weight"] for one in shown["backends"]] == [50, 50]
        assert (shown["mirror"], shown["mirror_percent"]) == ("a", 1)
        assert "1 % of requests are copied to a" in run("show")
        run("apply", "a=25", "b=75")
        with pytest.raises(NoData, match="no request"):
            run("split", "--json")
        listen = next(line for line in config.read_text().splitlines() if "listen" in line)
        at = listen.split("'")[1]
        with httpx.Client(base_url=f"http://{at}", trust_env=False) as client:
            for _ in range(8):
                client.post("/v1/completions")
        found = until(lambda: run("split", "--json"), lambda s: served(s) == [2, 6])
        assert served(found) == [2, 6]
        assert "75.0%" in run("split", "--since", "2026-01-01")


def served(split: Any) -> list[int]:
    return [one["requests"] for one in split["backends"].values()]


WRONG_TABLES = [
    (["a"], "no share"),
    (["a="], "no share"),
    (["a=x"], "no share"),
    (["a=-1"], "no share"),
    (["a=100"], "knows no 'a'"),
    (["a=h@100"], "address"),
    (["a=h:1@50"], "sum to 50"),
    (["a=h:1@50", "a=h:2@50"], "unique"),
    (["a=h:1@100", "--mirror", "b"], "mirror"),
]


def test_a_wrong_table_is_refused(run: Run) -> None:
    run("start")
    for words, problem in WRONG_TABLES:
        with pytest.raises(BadInput, match=problem):
            run("apply", *words)


def test_a_service_without_a_route_says_how_to_get_one(run: Run) -> None:
    for command in (["show"], ["split"], ["start"], ["stop"], ["apply", "a=100"]):
        with pytest.raises(BadInput, match=r"services\.bare\.route\.kind"):
            run(*command, service="bare")


def test_files_for_a_users_own_nginx(run: Run, tmp_path: Path) -> None:
    told = run("start", "--json", service="mine")
    assert told["running"] is False
    assert Path(told["http"]).read_text().startswith("# Route of the service mine")
    assert f"include {tmp_path / 'mine'}" in run("start", service="mine").replace("\n", " ")
    with pytest.raises(BadInput, match="your own"):
        run("stop", service="mine")
