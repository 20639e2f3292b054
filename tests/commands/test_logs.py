"""``quality logs …`` as the DAG calls it: one JSON object, the documented exit codes, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quality_lib.cli import app
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.exchanges.window import Window
from tests.jobs.production_log import DEAD, config, healthy, now_window, record, write_log


@pytest.fixture(autouse=True)
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quality_lib.adapters.mlflow.scores.MlflowScores.history", lambda *_: ())


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(app, ["logs", *arguments, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout) if done.stdout.strip() else {}


def times(window: Window) -> list[str]:
    return ["--from", window.start.isoformat(), "--to", window.end.isoformat()]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    log = [*(record(n, DEAD) for n in range(20)), *(record(100 + n, healthy(n)) for n in range(80))]
    config(tmp_path, write_log(tmp_path / "log", log))
    return tmp_path


def test_score_judges_a_window_at_once(home: Path) -> None:
    code, told = run(
        "score", "--service", "chat", "--config", str(home / "quality.yaml"),
        "--out", str(home / "out"), *times(now_window()),
    )  # fmt: skip
    assert (code, told["summary"], told["low"], told["judged"]) == (1, "degraded", 20, 100)
    assert told["rate_low"] < told["low_quality_rate"] == 0.2 < told["rate_high"]
    assert told["reasons"][0]["code"] == "low_quality"
    assert told["watermark"]["complete_to"] == told["end"]
    assert not told["waits"]
    assert "river" not in json.dumps(told)  # no text of a user


def test_the_steps_of_the_dag_one_by_one(home: Path) -> None:
    known = ["--config", str(home / "quality.yaml")]
    out = str(home / "out")
    code, plan = run(
        "partitions",
        "--service",
        "chat",
        "--count",
        "2",
        "--out",
        out,
        *times(now_window()),
        *known,
    )
    assert (code, plan["due"], plan["partitions"]) == (0, True, ["1/2", "2/2"])
    judged = 0
    for partition in plan["partitions"]:
        code, told = run(
            "score", "--service", "chat", "--out", out, "--partition", partition, *known
        )
        assert code == 0
        judged += told["judged"]
    code, told = run("merge", out, *known)
    assert (code, told["judged"], judged) == (1, 100, 100)


def test_merging_before_every_partition_is_scored_is_an_outside_failure(home: Path) -> None:
    known = ["--config", str(home / "quality.yaml")]
    run("partitions", "--service", "chat", "--out", str(home / "out"), *times(now_window()), *known)
    with pytest.raises(OutsideFailure, match="was not scored"):
        run("merge", str(home / "out"), *known)


def test_the_plan_of_a_deep_pass_is_scored_deeply_without_saying_so_again(home: Path) -> None:
    known = ["--config", str(home / "quality.yaml"), "--out", str(home / "out")]
    run("partitions", "--service", "chat", "--deep", *times(now_window()), *known)
    code, told = run("score", "--service", "chat", *known)
    assert (code, told["depth"]) == (1, "deep")
    assert {r["code"] for r in told["reasons"]} >= {"replay_not_done"}


def test_no_data_is_inconclusive_and_waits(tmp_path: Path) -> None:
    path = config(tmp_path, write_log(tmp_path / "log", []))
    code, told = run(
        "score", "--service", "chat", "--config", str(path), "--out", str(tmp_path / "out"),
        "--window", "10m",
    )  # fmt: skip
    assert (code, told["summary"]) == (4, "inconclusive")
    # Ten minutes are not the longest window: it is read again with the next.
    assert (told["waits"], told["watermark"]) == (True, None)


def test_what_is_not_due_has_no_partitions(home: Path) -> None:
    mark = json.dumps({"complete_to": "2999-01-01T00:00:00+00:00", "seen": []})
    code, told = run(
        "partitions", "--service", "chat", "--config", str(home / "quality.yaml"),
        "--out", str(home / "out"), "--watermark", mark,
    )  # fmt: skip
    assert (code, told["due"], told["partitions"]) == (0, False, [])
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--window", "10 minutes"], "no length of time"),
        (["--window", "0m"], "no length of time"),
        (["--from", "2026-03-01T00:00:00Z"], "belong together"),
        (["--from", "now", "--to", "2026-03-01"], "'now' is no time"),
        (["--from", "2026-03-02", "--to", "2026-03-01"], "must lie before"),
        (["--window", "1h", "--from", "2026-03-01", "--to", "2026-03-02"], "either"),
        (["--window", "1h", "--partition", "3/2"], "'3/2' is no partition"),
        (["--window", "1h", "--partition", "0/2"], "'0/2' is no partition"),
    ],
)
def test_a_slip_is_told(home: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        run(
            "score", "--service", "chat", "--config", str(home / "quality.yaml"),
            "--out", str(home / "out"), *arguments,
        )  # fmt: skip


def test_another_number_of_partitions_or_window_than_planned_is_refused(home: Path) -> None:
    known = ["--config", str(home / "quality.yaml"), "--out", str(home / "out")]
    run("partitions", "--service", "chat", *times(now_window()), *known)
    with pytest.raises(BadInput, match="has 1 partitions, not 2"):
        run("score", "--service", "chat", "--partition", "1/2", *known)
    with pytest.raises(BadInput, match="holds another window"):
        run("score", "--service", "chat", "--from", "2026-01-01", "--to", "2026-01-02", *known)


@pytest.mark.parametrize("mark", ["{", "[]", '{"complete_to": "soon"}'])
def test_a_watermark_of_another_shape_is_bad_input(home: Path, mark: str) -> None:
    with pytest.raises(BadInput):
        run(
            "partitions", "--service", "chat", "--config", str(home / "quality.yaml"),
            "--out", str(home / "out"), "--watermark", mark,
        )  # fmt: skip


def test_the_table_for_people_names_rate_reasons_and_report(home: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            "logs", "score", "--service", "chat", "--config", str(home / "quality.yaml"),
            "--out", str(home / "out"), *times(now_window()),
        ],
    )  # fmt: skip
    assert done.exit_code == 1
    for word in ("chat DEGRADED", "20.0%", "loop_only", "100 answers sampled", "report.html"):
        assert word in done.stdout.replace("\n", " ")
