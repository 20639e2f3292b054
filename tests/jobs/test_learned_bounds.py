"""A baseline teaches bounds, with or without the longer pass, and the snapshot takes them along."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quality_lib.adapters.files.baseline import write_baseline
from quality_lib.adapters.files.bounds import BOUNDS, write_bounds
from quality_lib.commands.golden import app
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.gates.bounds import LearnedBounds, Range
from quality_lib.gates.learn import HealthyAnswer
from quality_lib.golden.answer import Answer, Channel, Fault, GoldenRun, Probe
from quality_lib.golden.baseline import SCHEMA, Baseline, CaseBaseline
from quality_lib.golden.observation import CaseObservation
from quality_lib.jobs.learned_bounds import answers_of, learn_bounds
from quality_lib.jobs.snapshots import draft_snapshot
from quality_lib.settings import ServiceSettings
from quality_lib.snapshots.ports import BASELINE_FOLDER

CASES = 60
SERVICE = ServiceSettings(endpoint="http://127.0.0.1:9", model="m", weights=Path("w"))
LONGER = tuple(
    HealthyAnswer(str(i), logprobs=[-0.5 - i / 100] * 64, entropies=[1.0 + i / 100] * 64)
    for i in range(CASES)
)


def answer(case: int, channel: Channel = Channel.GREEDY, **changes: object) -> Answer:
    fields = {
        "text": "x",
        "finish_reason": "stop",
        "token_ids": tuple(range(40)),
        "logprobs": (-0.1 - case / 100,) * 40,
        **changes,
    }
    return Answer(Probe(str(case), channel, 1), **fields)  # type: ignore[arg-type]


def run(*answers: Answer) -> GoldenRun:
    kept = {a.probe.key: a for a in answers}
    return GoldenRun("r", "chat", "t", 1.0, "d", "m", "e", 4, {}, kept)


def observation(case: int, similarity: float | None) -> CaseObservation:
    return CaseObservation(
        str(case), Channel.GREEDY, similarity, None, None, None, None, (), "x", None, 0
    )


def baseline() -> Baseline:
    cases = {
        str(i): CaseBaseline(
            str(i),
            Channel.GREEDY,
            1,
            "d",
            answer(i),
            ("x",),
            (observation(i, 0.9), observation(i, 0.8 + i / 1000)),
            {},
        )
        for i in range(CASES)
    }
    return Baseline(SCHEMA, "chat", "m", "9" * 64, "t", ("a", "b"), {}, cases)


RUNS = [run(*(answer(i) for i in range(CASES)))] * 2


def test_only_decoded_answers_that_came_are_used() -> None:
    odd = run(
        answer(0),
        answer(1, Channel.RAW_SCORED),
        answer(2, fault=Fault.TRANSPORT),
        answer(3, token_ids=()),
        answer(4, finish_reason="length"),
    )
    found = answers_of([odd], baseline())
    assert [(a.prompt, a.is_cut, a.similarity) for a in found] == [
        ("0", False, 0.9),
        ("4", True, 0.9),
    ]


def test_runs_and_the_longer_pass_teach_together() -> None:
    said: list[str] = []
    learned = learn_bounds(
        SERVICE,
        (),
        RUNS,
        baseline(),
        progress=lambda *_: None,
        note=said.append,
        ask=lambda *_: LONGER,
    )
    assert said == []
    assert learned.answers == 3 * CASES
    assert learned.mean_entropy is not None
    assert learned.similarity is not None
    assert learned.similarity.low == pytest.approx(0.785, abs=0.02)
    assert learned.mean_logprob is not None
    assert learned.mean_logprob.low is not None
    assert learned.mean_logprob.low < -1.09


def test_without_the_longer_pass_the_runs_teach_what_they_can() -> None:
    said: list[str] = []

    def ask(*_: object) -> tuple[HealthyAnswer, ...]:
        raise OutsideFailure("dead")

    learned = learn_bounds(
        SERVICE, (), RUNS, baseline(), progress=lambda *_: None, note=said.append, ask=ask
    )
    assert learned.mean_entropy is None
    assert learned.mean_logprob is not None
    assert said == ["bounds are learned from the golden answers alone: dead"]


def test_a_server_that_tells_no_entropies_is_told_how() -> None:
    said: list[str] = []
    mute = tuple(HealthyAnswer(a.prompt, logprobs=a.logprobs) for a in LONGER)
    learn_bounds(
        SERVICE,
        (),
        RUNS,
        baseline(),
        progress=lambda *_: None,
        note=said.append,
        ask=lambda *_: mute,
    )
    assert len(said) == 1
    assert "docs/level-3.md" in said[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "baseline"
    place.mkdir()
    write_baseline(place / "baseline.json", baseline())
    write_bounds(
        place / BOUNDS, LearnedBounds(mean_entropy=Range(0.1, 3.5), answers=9, false_alarm=0.02)
    )
    return place


def test_a_snapshot_takes_the_bounds_along(folder: Path, tmp_path: Path) -> None:
    weights = tmp_path / "w"
    weights.mkdir()
    (weights / "model.safetensors").write_bytes(b"x")
    draft = draft_snapshot(
        SERVICE.model_copy(update={"weights": weights}),
        service_name="chat",
        config=tmp_path / "quality.yaml",
        baseline=folder,
        is_live=False,
        by="test",
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert draft.files[BASELINE_FOLDER + BOUNDS] == folder / BOUNDS
    assert draft.manifest.golden is not None
    before = draft.manifest.golden.baseline_sha256
    (folder / BOUNDS).write_text("{}")
    changed = draft_snapshot(
        SERVICE.model_copy(update={"weights": weights}),
        service_name="chat",
        config=tmp_path / "quality.yaml",
        baseline=folder,
        is_live=False,
        by="test",
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert changed.manifest.golden is not None
    assert changed.manifest.golden.baseline_sha256 != before


def test_the_command_shows_them(folder: Path) -> None:
    done = CliRunner().invoke(app, ["bounds", str(folder), "--json"])
    assert json.loads(done.stdout)["mean_entropy"] == {"low": 0.1, "high": 3.5}
    shown = CliRunner().invoke(app, ["bounds", str(folder)]).stdout
    assert "not learned" in shown
    assert "3.5" in shown


def test_the_command_names_the_file_that_is_wrong(folder: Path) -> None:
    (folder / BOUNDS).write_text("{")
    done = CliRunner().invoke(app, ["bounds", str(folder)])
    assert isinstance(done.exception, BadInput)
    assert BOUNDS in str(done.exception)
