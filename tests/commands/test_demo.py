"""The demo's exit code and its one JSON object when a step does not turn out as it must."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quality_lib.cli import app
from quality_lib.commands import demo as command
from quality_lib.errors import OutsideFailure
from quality_lib.jobs.demo_story import ExpectationFailed, Step, Story, failed_tasks


class BrokenDemo:
    """Breaks off at its second step."""

    def __init__(self, *_: object, **__: object) -> None:
        self.story = Story()

    @contextmanager
    def running(self) -> Generator[Story]:
        self.story.steps.append(Step("first", "fine", "fine", 1.0, True))
        told = "HEALTHY, unchanged [/x]\nof the log"
        self.story.steps.append(Step("second", "failed, changed", told))
        raise ExpectationFailed(told)
        yield self.story


@pytest.mark.parametrize("as_json", [False, True])
def test_a_step_that_fails_ends_with_1_and_shows_what_happened(
    monkeypatch: pytest.MonkeyPatch, as_json: bool, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "Demo", BrokenDemo)
    done = CliRunner().invoke(app, ["demo", "--no-wait", *(["--json"] if as_json else [])])
    assert done.exit_code == 1
    if as_json:
        story = json.loads(done.stdout)
        assert [step["is_as_expected"] for step in story["steps"]] == [True, False]
    else:
        assert "HEALTHY, unchanged [/x]" in " ".join(done.stdout.split())
        # In the table the headline alone; the reason with its log is the last that is said.
        assert "of the log" not in done.stdout
        assert done.output.endswith("the story broke off: HEALTHY, unchanged [/x]\nof the log\n")


class GoodDemo(BrokenDemo):
    """Ends as expected, with a report in a file and one in MLflow alone."""

    @contextmanager
    def running(self) -> Generator[Story]:
        self.story.steps.append(Step("first", "fine", "fine", 1.0, True))
        self.story.reports += [
            {"headline": "HEALTHY [/x]", "file": "/runs/report.html", "url": "http://m/1"},
            {"headline": "post-mortem", "file": "", "url": "http://m/2"},
        ]
        yield self.story


def test_a_report_that_is_in_mlflow_alone_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Demo", GoodDemo)
    done = CliRunner().invoke(app, ["demo", "--no-wait"])
    assert done.exit_code == 0
    assert "HEALTHY [/x]\n  report  /runs/report.html\n  MLflow  http://m/1\n" in done.stdout
    assert "post-mortem\n  MLflow  http://m/2\n" in done.stdout


class Unable(BrokenDemo):
    """Breaks off outside of any step."""

    @contextmanager
    def running(self) -> Generator[Story]:
        raise OutsideFailure("no port is free\nFix: end what holds them")
        yield self.story


def test_an_error_outside_of_any_step_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Demo", Unable)
    done = CliRunner().invoke(app, ["demo", "--no-wait"])
    assert done.exit_code == 3
    assert done.output.endswith("the story broke off: no port is free\nFix: end what holds them\n")


def test_a_failed_run_names_its_tasks_and_how_the_log_of_the_first_ends() -> None:
    log = "\n".join(["::group::Details", *(f"line {n}" for n in range(20)), "::endgroup::"])
    told = failed_tasks(["move[2]", "recover"], log).splitlines()
    assert told[0] == "failed: move[2], recover; the log of move[2] ends with:"
    assert told[1:] == [f"line {n}" for n in range(5, 20)]
    assert failed_tasks([], "") == "no task failed"
