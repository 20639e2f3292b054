"""``quality golden sentinel / calibrate / check`` with a calibration, by a stand-in model."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.files.calibration import CALIBRATION
from quality_lib.adapters.files.readings import READINGS, RECHECKS
from quality_lib.snapshots.manifest import EnvironmentRecord
from quality_lib.snapshots.startup_check import ServerFacts
from tests.adapters.files.recordings import recorded, write_recording
from tests.drift_world import DriftWorld
from tests.in_process import QualityHere

STARTS = 4
EACH = 32


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriftWorld:
    return DriftWorld(tmp_path, monkeypatch)


def calibrate(quality: QualityHere, world: DriftWorld, *more: object, checks: int = EACH) -> Any:
    return quality(
        "golden", "calibrate", "--service", "chat", "--config", world.config, "--baseline",
        world.baseline_dir, "--checks", checks, "--out", world.folder / "healthy", "--json", *more,
    )  # fmt: skip


_KEPT: dict[str, bytes] = {}


def calibrated(quality: QualityHere, world: DriftWorld) -> None:
    """Register a snapshot with a calibration; the same one in every test, made once."""
    if not _KEPT:
        calibrate_fully(quality, world)
        _KEPT["calibration"] = (world.baseline_dir / CALIBRATION).read_bytes()
    (world.baseline_dir / CALIBRATION).write_bytes(_KEPT["calibration"])
    register(quality, world)


def calibrate_fully(quality: QualityHere, world: DriftWorld, *more: object) -> dict[str, Any]:
    """Calibrate over several server starts."""
    shutil.rmtree(world.folder / "healthy", ignore_errors=True)
    for number in range(STARTS):
        world.start = f"start-{number}"
        done = calibrate(quality, world, *more, *(["--resume"] if number else []))
        assert done.returncode == (0 if number == STARTS - 1 else 4), done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def register(quality: QualityHere, world: DriftWorld) -> None:
    done = quality(
        "snapshot", "create", "--service", "chat", "--config", world.config, "--baseline",
        world.baseline_dir, "--no-live", "--alias", "serving", "--by", "test", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


CODES = {("healthy", "no"): 0, ("healthy", "yes"): 1, ("healthy", "unknown"): 4}


def check(
    quality: QualityHere, world: DriftWorld, name: str, publish: bool = True
) -> dict[str, Any]:
    """Do one hourly check and publish it, as the DAG does."""
    world.hour()
    out = world.folder / "runs" / name
    done = quality(
        "golden", "check", "--service", "chat", "--config", world.config, "--out", out, "--json"
    )
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == CODES.get((result["summary"], result["changed"]), 4), done.stderr
    if publish:
        stored = quality("golden", "publish", out, "--config", world.config, "--json")
        assert stored.returncode == 0, stored.stderr
    result["words"] = done.stderr
    return result


def check_code(quality: QualityHere, world: DriftWorld, name: str, code: int) -> dict[str, Any]:
    done = quality(
        "golden", "check", "--service", "chat", "--config", world.config, "--out",
        world.folder / "runs" / name, "--json",
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_from_calibration_to_a_page(quality_here: QualityHere, world: DriftWorld) -> None:
    made = calibrate_fully(quality_here, world)
    register(quality_here, world)
    assert (made["checks"], made["starts"], made["is_deterministic"]) == (128, 4, False)
    shown = quality_here(
        "snapshot", "show", "serving", "--service", "chat", "--config", world.config
    )
    assert "calibration: yes" in shown.stdout

    first = check(quality_here, world, "h1")
    assert (first["summary"], first["changed"], first["degraded"]) == ("healthy", "no", "no")
    assert "at most 0.1 false alarms a year" in first["basis"]
    assert "first published check" in first["drift"]["state_from"]
    second = check(quality_here, world, "h2")
    assert second["drift"]["state_from"] == f"check {first['run_id']}"

    world.model.shift = 0.02
    hours = 0
    while (result := check(quality_here, world, f"bad{hours}"))["changed"] != "yes":
        hours += 1
        assert hours < 12, json.dumps(result["drift"], indent=1)
    assert result["summary"] == "healthy"
    assert result["drift"]["pages"]
    assert result["suspected"]
    report = Path(result["report"]).read_text(encoding="utf-8")
    assert "false alarms" in report
    assert "L2" in report


def state_of(world: DriftWorld) -> str:
    drift = world.results.results[-1].drift
    assert drift is not None
    return drift.state


def test_one_odd_hour_pages_nobody(quality_here: QualityHere, world: DriftWorld) -> None:
    calibrated(quality_here, world)
    check(quality_here, world, "before")
    world.model.shift = 0.5
    odd = check(quality_here, world, "odd", publish=False)
    world.model.shift = 0.0
    assert odd["changed"] == "yes", (
        "every re-check of a lasting shift finds it: that is no odd hour"
    )
    # The shift goes away after the run, before its re-checks are made.
    scored = [0]

    def once() -> None:
        scored[0] += 1
        world.model.shift = 0.5 if scored[0] <= probes else 0.0

    probes = 2 * sum(len(case.scored) for case in world.baseline.cases.values())
    world.model.before_score = once
    result = check(quality_here, world, "once")
    assert result["drift"]["rechecks"] >= 1
    assert result["changed"] != "yes", result["drift"]
    assert check(quality_here, world, "after")["changed"] == "no"


def test_an_hour_without_data_leaves_the_state_where_it_was(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    calibrated(quality_here, world)
    check(quality_here, world, "before")
    before = state_of(world)
    health = json.loads((world.baseline_dir / CALIBRATION).read_bytes())["healthy"]
    world.model.lost_cases = {row["case_id"] for row in health}
    result = check(quality_here, world, "gone")
    assert (result["changed"], result["drift"]["reasons"][0]["code"]) == ("unknown", "no_data")
    assert state_of(world) == before
    world.model.lost_cases = set()
    assert check(quality_here, world, "after")["changed"] == "no"


def test_an_interrupted_calibration_goes_on_where_it_was(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    asked = [0]

    def interrupt() -> None:
        asked[0] += 1
        if asked[0] > 100:
            raise KeyboardInterrupt

    world.model.before_score = interrupt
    assert calibrate(quality_here, world).returncode == 130
    world.model.before_score = lambda: None
    readings = world.folder / "healthy" / READINGS
    kept = readings.read_bytes().count(b"\n")
    assert 0 < kept < EACH
    with readings.open("ab") as file:
        file.write(b'{"check_id": "cut by a k')
    refused = calibrate(quality_here, world)
    assert refused.returncode == 2
    assert "add --resume" in refused.stderr
    done = calibrate(quality_here, world, "--resume")
    assert done.returncode == 4
    assert readings.read_bytes().count(b"\n") == EACH
    first = readings.read_bytes()
    assert calibrate(quality_here, world, "--resume").returncode == 4
    assert readings.read_bytes() == first, "all checks of this start are there"


def test_too_little_is_refused_with_what_is_missing(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    done = calibrate(quality_here, world, checks=6)
    assert done.returncode == 4
    assert "needs 120 healthy checks, there are 6" in done.stderr
    assert "1 server start" in done.stderr
    assert "--resume" in done.stderr
    assert not (world.baseline_dir / CALIBRATION).exists()


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ("gone", 3, "stopped answering"),
        ("not healthy", 2, "is not healthy"),
        ("another deployment", 2, "deployment_key"),
        ("restarted", 3, "was restarted"),
        ("no start", 2, "--start"),
        ("bad loads", 2, "must hold 1"),
        ("no loads", 2, "no list of loads"),
        ("a huge load", 2, "between 1 and 256"),
        ("no line", 2, "readings.jsonl:1"),
    ],
)
def test_calibrate_refuses_what_would_teach_a_fault(
    quality_here: QualityHere, world: DriftWorld, trouble: str, code: int, words: str
) -> None:
    more: list[object] = []
    match trouble:
        case "gone":
            world.model.lose = True
        case "not healthy":
            world.model.shift = float("inf")
        case "another deployment":
            assert calibrate(quality_here, world, checks=1).returncode == 4
            (world.folder / "weights" / "model.safetensors").write_bytes(b"other")
            more = ["--resume"]
        case "restarted":
            world.model.before_score = lambda: setattr(world, "start", "another")
        case "no start":
            world.start = None
        case "bad loads":
            more = ["--loads", "4,16"]
        case "no loads":
            more = ["--loads", "1,many"]
        case "a huge load":
            more = ["--loads", "1,257"]
        case "no line":
            assert calibrate(quality_here, world, checks=1).returncode == 4
            (world.folder / "healthy" / READINGS).write_text("{}\n", encoding="utf-8")
            more = ["--resume"]
    done = calibrate(quality_here, world, *more, checks=2)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_start_that_has_a_name_needs_no_metrics(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    world.start = None
    done = calibrate(quality_here, world, "--start", "monday", checks=1)
    assert done.returncode == 4
    assert '"start": "monday"' in (world.folder / "healthy" / READINGS).read_text(encoding="utf-8")


def test_without_calibration_bands_decide_and_the_verdict_says_so(
    quality_here: QualityHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = DriftWorld(tmp_path, monkeypatch, noise=0.0)
    register(quality_here, world)
    result = check(quality_here, world, "h1")
    assert result["basis"] == "uncalibrated: bands, no stated false-alarm rate"
    assert result["drift"] is None
    assert "Uncalibrated" in Path(result["report"]).read_text(encoding="utf-8")
    shown = quality_here(
        "snapshot", "show", "serving", "--service", "chat", "--config", world.config
    )
    assert "calibration: none" in shown.stdout
    world.model.shift = 1e-6
    assert check(quality_here, world, "h2")["changed"] == "yes"


def test_a_calibration_may_be_switched_off(quality_here: QualityHere, world: DriftWorld) -> None:
    calibrated(quality_here, world)
    world.configure(enabled=False)
    assert check(quality_here, world, "h1")["drift"] is None


@pytest.mark.parametrize(
    ("field", "damage"),
    [
        ("risk", lambda data: data.pop("risk")),
        ("blocks", lambda data: data.update(blocks=[{"start": "a"}])),
        ("statistics", lambda data: data["statistics"]["mean_z"].update(values=["x"])),
        ("healthy", lambda data: data["healthy"][0].update(mean=None)),
        ("schema", lambda data: data.update(schema=99)),
        ("healthy", lambda data: data.update(healthy=[])),
        ("not valid JSON", None),
    ],
)
def test_a_damaged_calibration_is_named_with_file_and_field(
    quality_here: QualityHere, world: DriftWorld, field: str, damage: Any, tmp_path: Path
) -> None:
    from quality_lib.drift.calibrate import calibrate as learn
    from quality_lib.drift.calibration_json import calibration_to_json
    from tests.drift import readings

    server = readings.Server()
    made = learn(readings.healthy_checks(server), readings.REFERENCE, readings.LIMITS)
    text = calibration_to_json(made)
    if damage is not None:
        data = json.loads(text)
        damage(data)
        text = json.dumps(data)
    else:
        text = text[:100]
    (world.baseline_dir / CALIBRATION).write_text(text, encoding="utf-8")
    register(quality_here, world)
    done = quality_here(
        "golden", "check", "--service", "chat", "--config", world.config, "--out", tmp_path / "c"
    )
    assert done.returncode == 2, done.stderr
    assert CALIBRATION in done.stderr
    if damage is not None:
        assert f"field '{field}'" in done.stderr


def test_the_state_of_another_calibration_is_not_used(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    calibrated(quality_here, world)
    world.model.shift = 0.02
    for number in range(2):
        check(quality_here, world, f"old{number}")
    drift = world.results.results[-1].drift
    assert drift is not None
    assert drift.level and drift.level > 1
    world.model.shift = 0.0
    assert calibrate_fully(quality_here, world, "--accepted-by", "ada")["accepted_by"] == "ada"
    kept = json.loads((world.baseline_dir / CALIBRATION).read_bytes())
    assert kept["accepted_by"] == "ada"
    register(quality_here, world)
    result = check(quality_here, world, "new")
    assert "another calibration" in result["drift"]["state_from"]
    assert "another calibration" in result["words"]
    assert result["drift"]["level"] == result["drift"]["e_value"]


def test_a_lost_state_begins_anew_and_says_so(quality_here: QualityHere, world: DriftWorld) -> None:
    calibrated(quality_here, world)
    check(quality_here, world, "h1")
    last = world.results.results[-1]
    assert last.drift is not None
    world.results.results[-1] = dataclasses.replace(
        last, drift=dataclasses.replace(last.drift, state="{damaged")
    )
    result = check(quality_here, world, "h2")
    assert result["drift"]["state_from"].startswith("lost")


def test_another_engine_is_advice_and_no_page(quality_here: QualityHere, world: DriftWorld) -> None:
    calibrated(quality_here, world)
    world.environment = EnvironmentRecord(cpu="another cpu", torch="2.13")
    world.model.shift = 0.3
    result = check_code(quality_here, world, "moved", 4)
    assert result["changed"] == "yes"
    assert "calibrate anew" in result["headline"]
    assert not result["drift"]["pages"]
    world.environment = EnvironmentRecord(cpu="cpu of the test", torch="2.13")
    world.facts = ServerFacts(vllm_version="0.33.0", args=())
    assert "calibrate anew" in check_code(quality_here, world, "upgraded", 4)["headline"]


def test_a_finished_check_gives_the_same_decision_again(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    calibrated(quality_here, world)
    first = check(quality_here, world, "h1")
    again = check(quality_here, world, "h1")
    assert first["drift"] == again["drift"]
    assert len(world.results.results) == 1


@pytest.mark.parametrize("name", ["sentinel.json", "sentinel.txt"])
def test_a_sentinel_set_is_written_told_and_used(
    quality_here: QualityHere, world: DriftWorld, name: str
) -> None:
    file, before = world.folder / name, world.model.asked_scores
    done = quality_here(
        "golden", "sentinel", "--baseline", world.baseline_dir, "--out", file, "--cases", 3,
        "--config", world.config, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    picks = json.loads(done.stdout)["cases"]
    assert len(picks) == 3
    assert all(pick["why"] for pick in picks)
    assert world.model.asked_scores == before
    made = calibrate(quality_here, world, "--sentinel", file, checks=1)
    assert made.returncode == 4
    line = json.loads((world.folder / "healthy" / READINGS).read_text(encoding="utf-8"))
    assert {probe[0] for probe in line["probes"]} == {pick["case_id"] for pick in picks}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nobody\n", "no scored answer of 'nobody'"),
        ("# nothing\n", "names no case"),
        ('{"schema": 7}', "sentinel set"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_sentinel_file_is_named(
    quality_here: QualityHere, world: DriftWorld, text: str | None, words: str
) -> None:
    file = world.folder / ("s.json" if text and text.startswith("{") else "s.txt")
    if text is not None:
        file.write_text(text, encoding="utf-8")
    done = calibrate(quality_here, world, "--sentinel", file, checks=1)
    assert done.returncode == 2
    assert words in done.stderr
    assert file.name in done.stderr


def test_nothing_is_learned_after_a_suspicion_unless_somebody_vouches(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    calibrated(quality_here, world)
    assert calibrate(quality_here, world, "--resume", checks=1).returncode == 4
    world.model.shift = 0.5
    assert check(quality_here, world, "bad")["changed"] == "yes"
    refused = calibrate(quality_here, world, "--resume", checks=2)
    assert refused.returncode == 2
    assert "teach the fault as health" in refused.stderr
    vouched = calibrate(quality_here, world, "--resume", "--accepted-by", "ada", checks=2)
    assert vouched.returncode == 4


def test_all_stored_answers_may_be_watched(quality_here: QualityHere, world: DriftWorld) -> None:
    world.configure(cases="all")
    assert calibrate(quality_here, world, "--decode-every", 0, checks=1).returncode == 4
    line = json.loads((world.folder / "healthy" / READINGS).read_text(encoding="utf-8"))
    assert len(line["probes"]) == sum(len(c.scored) for c in world.baseline.cases.values())


@pytest.mark.parametrize(
    ("more", "decoded"),
    [
        ((), [*range(4), *range(16, 18)]),
        (("--decode-every", 2), [*range(4), *range(8, 12), *range(16, 18)]),
        (("--decode-every", 1), list(range(18))),
        (("--decode-every", 0), []),
    ],
)
def test_whole_bursts_are_decoded_and_one_in_so_many(
    quality_here: QualityHere, world: DriftWorld, more: tuple[object, ...], decoded: list[int]
) -> None:
    assert calibrate(quality_here, world, *more, checks=18).returncode == 4
    lines = (world.folder / "healthy" / READINGS).read_text(encoding="utf-8").splitlines()
    probes = [json.loads(line)["probes"] for line in lines]
    texts = {"greedy", "seeded", "long_context"}
    found = [n for n, row in enumerate(probes) if texts & {probe[1] for probe in row}]
    assert found == decoded
    watched = {probe[0] for probe in probes[0]}
    for number in decoded:
        assert {probe[0] for probe in probes[number] if probe[1] in texts} == watched


def test_a_calibration_says_whether_texts_are_judged(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    made = calibrate_fully(quality_here, world)
    assert (made["checks_decoded"], made["statistics"]) == (32, ["max_z", "mean_z", "signed"])
    made = calibrate_fully(quality_here, world, "--decode-every", 1)
    assert made["checks_decoded"] == 128
    assert made["statistics"] == ["forks", "max_z", "mean_z", "replay", "signed"]
    register(quality_here, world)
    result = check(quality_here, world, "h1")
    assert (result["summary"], result["changed"]) == ("healthy", "no")
    kept = (world.folder / "runs" / "h1" / RECHECKS).read_text(encoding="utf-8")
    assert [json.loads(line)["check_id"] for line in kept.splitlines()] == [
        f"{result['run_id']}-decoded"
    ]
    assert RECHECKS in world.results.files[result["run_id"]]


@pytest.mark.parametrize(
    ("drift", "words"),
    [
        ({"loads": [4, 16]}, ("services.chat.drift.loads", "must hold 1")),
        ({"limits": {"suspicion": 0.5}}, ("services.chat.drift.limits", "suspicion")),
        ({"limits": {"min_chekcs": 1}}, ("services.chat.drift.limits.min_chekcs",)),
        ({"cases": "some"}, ("services.chat.drift.cases",)),
    ],
)
def test_a_bad_setting_is_named(
    quality_here: QualityHere, world: DriftWorld, drift: dict[str, Any], words: tuple[str, ...]
) -> None:
    world.configure(**drift)
    done = calibrate(quality_here, world, checks=1)
    assert done.returncode == 2
    assert [word for word in words if word not in done.stderr] == []


def test_recorded_faults_choose_and_a_bad_folder_is_named(
    quality_here: QualityHere, world: DriftWorld
) -> None:
    folder = world.folder / "recordings"
    folder.mkdir()
    command = (
        "golden", "sentinel", "--baseline", world.baseline_dir, "--out", world.folder / "s.json",
        "--cases", 2, "--config", world.config, "--faults", folder, "--json",
    )  # fmt: skip

    def written(name: str, fault: str, moved: dict[str, float]) -> None:
        write_recording(folder / name, [
            recorded(case, fault, 0.01 * number + by)
            for case, by in moved.items() for number in range(4)
        ])  # fmt: skip

    written("1.parquet", "healthy", {"case-05": 0.0, "case-17": 0.0})
    refused = quality_here(*command)
    assert (refused.returncode, "holds no fault" in refused.stderr) == (2, True), refused.stderr
    written("2.parquet", "int4", {"case-05": 0.0, "case-17": 0.5})
    written("3.parquet", "ghost", {"case-05": 0.0, "case-17": 0.0})
    done = quality_here(*command)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["cases"][0]["case_id"] == "case-17"
    assert "sees 1 more fault (int4)" in told["cases"][0]["why"]
    assert told["unseen_faults"] == ["ghost"]
    shown = quality_here(*command[:-1])
    assert "1 recorded faults are seen by no case: ghost" in shown.stderr
    (folder / "3.parquet").write_bytes(b"PAR1 and nothing else")
    refused = quality_here(*command)
    assert refused.returncode == 2
    assert "3.parquet" in refused.stderr
    assert "Traceback" not in refused.stderr
