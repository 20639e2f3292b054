"""Every promised default, and the errors of a wrong file."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality_lib.errors import BadInput
from quality_lib.golden.comparison import Limits
from quality_lib.golden.verdict import Floors
from quality_lib.settings import (
    AlertSettings,
    EngineSettings,
    EvidenceSettings,
    GoldenSettings,
    RetentionSettings,
    RollbackSettings,
    RouteSettings,
    ScoringSettings,
    ServiceSettings,
    SignalSettings,
    Thresholds,
    config_path,
    home,
    line_of,
    load,
    secret,
)
from quality_lib.wiring import floors, limits

MINIMAL = "services: {chat: {endpoint: http://x, model: m, weights: w}}"


def test_the_promised_defaults() -> None:
    assert Thresholds().model_dump() == {
        "similarity_alert": 0.85,
        "similarity_failed": 0.80,
        "band_sigmas": 6.0,
        "band_floor": 0.02,
        "exact_floor": 0.15,
        "logprob_floor": 0.05,
        "false_alarm": 0.001,
        "gross_logprob": 1.0,
        "min_judged_share": 0.9,
        "max_missing_share": 0.02,
    }
    assert GoldenSettings().model_dump() == {
        "cases": "builtin:core",
        "concurrency": 16,
        "repeats": 3,
        "request_timeout_s": 120.0,
    }
    assert EngineSettings().model_dump() == {"kind": "external", "args": ()}
    assert AlertSettings().model_dump() == {"http_conn_id": None, "slack_conn_id": None}
    assert ServiceSettings.model_fields["stale_minutes"].default == 150.0


def test_the_promised_defaults_of_the_route() -> None:
    assert RouteSettings().model_dump() == {
        "kind": "none",
        "listen": None,
        "folder": None,
        "binary": None,
        "check_command": ("nginx", "-t"),
        "reload_command": ("nginx", "-s", "reload"),
        "pid_file": None,
        "status_url": None,
        "trusted": ("127.0.0.1", "::1"),
        "workers": 2,
        "connect_timeout_s": 5,
        "read_timeout_s": 3600,
        "finish_timeout_s": 3600,
        "keep_clients": False,
        "keep_idle_s": 3,
        "body_limit_mb": 64,
        "apply_timeout_s": 30.0,
    }


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"listen": "8080"}, "must look like"),
        ({"listen": "127.0.0.1:80;"}, "must look like"),
        ({"listen": "a b:80"}, "must look like"),
        ({"trusted": ["10.0.0.0/8; }"]}, "does not appear"),
        ({"trusted": ["fe80::1%x"]}, "zone"),
        ({"status_url": "127.0.0.1"}, "must be an address"),
        ({"kind": "haproxy"}, "nginx"),
    ],
)
def test_a_wrong_route_is_refused(wrong: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RouteSettings.model_validate(wrong)


def test_the_promised_defaults_of_scoring() -> None:
    assert ScoringSettings().model_dump() == {
        "every_minutes": 10,
        "deep_every_minutes": 60,
        "longest_windows": 6,
        "partitions": 1,
        "deep_rows": 200,
        "limits": {
            "alert_rate": 0.05,
            "failed_rate": 0.25,
            "group_rate": 0.25,
            "false_alarm": 0.001,
            "min_rows": 50,
            "max_unjudged_share": 0.5,
            "max_crashed_share": 0.05,
            "confidence": 0.95,
        },
        "embeddings": True,
        "reference_model": "builtin:smollm2-135m",
        "reference_memory_mb": 512,
        "replay_endpoint": None,
        "replay_model": None,
        "replay_api_key_env": None,
        "replay_rows": 20,
        "replay": {
            "mean_difference": 0.1,
            "token_difference": 1.0,
            "impossible_logprob": -15.0,
            "greedy_margin": 1.0,
            "max_bad_tokens": 0,
            "min_tokens": 200,
            "reported": "raw",
        },
        "results_uri": None,
    }


def test_the_promised_defaults_of_what_is_kept() -> None:
    assert EvidenceSettings().model_dump() == {
        "ship_to": None,
        "part_timeout_s": 30.0,
        "hash_timeout_s": 1800.0,
        "log_mb": 16,
        "exchanges": 200,
    }
    assert RetentionSettings().model_dump() == {
        "keep_healthy": 5,
        "snapshot_days": 30.0,
        "evidence_days": 180.0,
        "run_days": 14.0,
        "log_days": None,
    }


def test_the_promised_defaults_of_engine_signals() -> None:
    assert SignalSettings().model_dump() == {
        "log": None,
        "dcgm": None,
        "dcgm_only": "",
        "live_weights": True,
        "live_weights_every_minutes": 10.0,
        "limits": {
            "window_minutes": 30.0,
            "corrupted_requests": 1,
            "nan_steps": 1,
            "idle_kv_usage": 0.40,
            "idle_readings": 2,
            "idle_spread_s": 30.0,
            "preemptions": 20,
            "preemptions_per_request": 1.0,
            "log_errors": 1,
            "uncorrected_memory_errors": 1,
        },
    }


@pytest.mark.parametrize("wrong", [{"dcgm": "gpu:9400"}, {"dcgm_only": "("}])
def test_signals_that_cannot_be_read_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SignalSettings.model_validate(wrong)


def test_the_promised_defaults_of_a_rollback() -> None:
    assert RollbackSettings().model_dump() == {
        "mode": "approve-first",
        "strategy": "surge",
        "step_percent": 25,
        "soak_s": 60.0,
        "approval_timeout_minutes": 30.0,
        "cool_down_minutes": 60.0,
        "daily_limit": 3,
        "staging": "instance",
        "min_capacity": 1,
        "keep_retired_minutes": 30.0,
        "core_cases": 10,
        "start_timeout_s": 900.0,
        "drain_timeout_s": 600.0,
        "core_dump": False,
        "triggers": {
            "policy": "(A and B) or C",
            "golden_runs": 2,
            "similarity_below": 0.80,
            "golden_max_age_minutes": 150.0,
            "golden_max_gap_minutes": 150.0,
            "low_quality_rate": 0.05,
            "false_alarm": 0.001,
            "min_rows": 50,
            "window_max_age_minutes": 30.0,
            "signal_max_age_minutes": 15.0,
            "required_signals": ("engine_health",),
            "clock_skew_s": 120.0,
        },
    }


@pytest.mark.parametrize(
    ("rollback", "problem", "field"),
    [
        ("{mode: manual}", "'auto'", "rollback.mode"),
        ("{step_percent: 30}", "25, 50 or 100", "rollback.step_percent"),
        ("{daily_limit: 0}", "greater than or equal to 1", "rollback.daily_limit"),
        ("{triggers: {policy: A and D}}", "'D' at character 7 is no condition", "triggers"),
        ("{triggers: {policy: (A or B}}", "not closed", "triggers"),
        ("{triggers: {golden_runs: 0}}", "golden_runs must be at least 1", "triggers"),
        ("{triggers: {low_quality_rate: 5}}", "between 0 and 1", "triggers"),
        ("{triggers: {signal_max_age_minutes: .nan}}", "above 0", "triggers"),
        ("{triggers: {required_signals: [leak]}}", "no engine signal 'leak'", "triggers"),
        ("{triggers: {golden_run: 3}}", "[Uu]nexpected", "triggers.golden_run"),
    ],
)
def test_a_wrong_rollback_section_is_told(
    tmp_path: Path, rollback: str, problem: str, field: str
) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("weights: w", f"weights: w, rollback: {rollback}"))
    with pytest.raises(BadInput, match=problem) as caught:
        load(path)
    assert field in str(caught.value.field)


@pytest.mark.parametrize("endpoint", ["http://user:secret@x:1", "x:8000"])
def test_the_reference_of_a_replay_is_an_address_without_a_password(endpoint: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        ScoringSettings(replay_endpoint=endpoint)
    assert "name the key" in str(caught.value) or "address" in str(caught.value)
    assert ScoringSettings(replay_endpoint="http://x:8000/v1").replay_endpoint == "http://x:8000"


def test_the_pure_defaults_are_the_same_as_the_settings() -> None:
    assert limits(Thresholds()) == Limits()
    assert floors(Thresholds()) == Floors()


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    settings = load(path)
    assert settings.service("chat").weights == tmp_path / "w"
    assert settings.stores.work_dir == tmp_path / ".quality/runs"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("services:\n  chat:\n    endpoint: http://x\n    model: m\n", 2, "services.chat.weights"),
        (f"{MINIMAL}\nstores:\n  mlfow: http://x\n", 3, "stores.mlfow"),
        (f"{MINIMAL}\nservices2: 1\n", 2, "services2"),
        ("services: {}\n", 1, "services"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, field: str
) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        load(path)
    assert (caught.value.line, caught.value.field) == (line, field)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="QUALITY_CONFIG"):
        load(tmp_path / "nowhere.yaml")


def test_an_unknown_service_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    with pytest.raises(BadInput, match="use one of: chat"):
        load(path).service("caht")


def test_the_environment_is_an_argument() -> None:
    assert config_path(None, {"QUALITY_CONFIG": "/a.yaml"}) == Path("/a.yaml")
    assert config_path(Path("b.yaml"), {"QUALITY_CONFIG": "/a.yaml"}) == Path("b.yaml")
    assert home({"QUALITY_HOME": "/h"}) == Path("/h")
    assert secret("KEY", {"KEY": "s"}) == "s"
    with pytest.raises(BadInput, match="export KEY"):
        secret("KEY", {})


@pytest.mark.parametrize("endpoint", ["http://user:secret@x:1", "x:8000", "ftp://x", "http://"])
def test_an_endpoint_is_an_address_without_a_password(tmp_path: Path, endpoint: str) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("http://x", endpoint), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        load(path)
    assert caught.value.field == "services.chat.endpoint"
    assert "secret" not in str(caught.value)


def test_v1_at_the_end_of_an_endpoint_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("http://x", "http://x:8000/v1/"), encoding="utf-8")
    assert load(path).service("chat").endpoint == "http://x:8000"


def test_the_exchange_log_lies_beside_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "quality.yaml"
    gates = "gates: {bounds: b.json, log: {folder: log, ship_to: 's3://bucket/logs'}}"
    path.write_text(MINIMAL.replace("weights: w", f"weights: w, {gates}"), encoding="utf-8")
    read = load(path).service("chat").gates
    assert (read.log.folder, read.bounds) == (tmp_path / "log", tmp_path / "b.json")
    assert (read.log.prompt, read.log.mask, read.log.detail_share) == ("text", True, 0.1)


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ("{folder: log, ship_to: 'https://bucket'}", "s3://bucket/prefix"),
        ("{folder: log, ship_to: 's3://key:secret@bucket'}", "s3://bucket/prefix"),
        ("{ship_to: 's3://bucket'}", "needs a folder"),
        ("{folder: log, prompt: none}", "'text' or 'hash'"),
        ("{folder: log, detail_share: 2}", "less than or equal to 1"),
    ],
)
def test_a_wrong_exchange_log_is_told(tmp_path: Path, log: str, problem: str) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("weights: w", f"weights: w, gates: {{log: {log}}}"))
    with pytest.raises(BadInput, match=problem) as told:
        load(path)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("disabled", "unknown"),
    [("[lop]", "lop"), ("[loop, Echo]", "Echo"), ("[stream, length, coherence]", None)],
)
def test_a_gate_that_is_switched_off_must_exist(
    tmp_path: Path, disabled: str, unknown: str | None
) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("weights: w", f"weights: w, gates: {{disabled: {disabled}}}"))
    if unknown is None:
        assert load(path).service("chat").gates.disabled
        return
    with pytest.raises(BadInput, match=f"no gate '{unknown}'") as told:
        load(path)
    assert str(told.value.field) == "services.chat.gates.disabled"


@pytest.mark.parametrize(
    ("logs", "problem"),
    [
        ("{format: fields}", "needs the map 'fields'"),
        ("{fields: {txet: a}}", "no field 'txet'"),
        ("{fields: {text: 'a..b'}}", "cannot be read from character 2"),
        ("{layout: ['%H/']}", "not unique"),
        ("{batch_names: [a, a]}", "two different endings"),
        ("{sample: {max_rows: 0}}", "at least 1"),
        ("{reading: {max_bad_share: 2}}", "between 0 and 1"),
        ("{format: csv}", "own"),
    ],
)
def test_logs_that_cannot_be_read_are_told_at_once(tmp_path: Path, logs: str, problem: str) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(MINIMAL.replace("weights: w", f"weights: w, logs: {logs}"), encoding="utf-8")
    with pytest.raises(BadInput, match=problem) as caught:
        load(path)
    assert str(caught.value.field).startswith("services.chat.logs")


@pytest.mark.parametrize(
    ("source", "found"),
    [("logs", "logs"), ("/var/log/x", "/var/log/x"), ("s3://bucket/x", "s3://bucket/x")],
)
def test_a_log_folder_starts_at_the_configuration(tmp_path: Path, source: str, found: str) -> None:
    path = tmp_path / "quality.yaml"
    path.write_text(
        MINIMAL.replace("weights: w", f"weights: w, logs: {{source: '{source}'}}"), encoding="utf-8"
    )
    expected = str(tmp_path / found) if found == "logs" else found
    assert load(path).service("chat").log_source == expected


SHARED = """\
services:
  a: &a
    endpoint: http://x:1
    weights: one
  b:
    <<: *a
    endpoint: http://y:1
"""


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        (SHARED, ("services", "a", "weights"), 4),
        (SHARED, ("services", "b", "endpoint"), 7),
        (SHARED, ("services", "b", "weights"), 5),  # shared: the deepest part that is really there
        (SHARED, ("services", "c"), 1),
        ("", ("services",), None),
        ("a: [", ("a",), None),
    ],
)
def test_a_key_has_a_line(
    tmp_path: Path, text: str, keys: tuple[str, ...], line: int | None
) -> None:
    (tmp_path / "quality.yaml").write_text(text)
    assert line_of(tmp_path / "quality.yaml", *keys) == line


def test_a_file_that_is_gone_has_no_line(tmp_path: Path) -> None:
    assert line_of(tmp_path / "quality.yaml", "services") is None
