"""The journal survives what it must, and one process at a time works on a service."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quality_lib.adapters.files.journal import IncidentFolder, Incidents, incident_folder
from quality_lib.errors import BadInput, OutsideFailure
from quality_lib.rollout.journal import AbortRequest, Bad, Done, Event, Rejected, Relaunch, Retired
from quality_lib.rollout.strategy import StepName, Strategy
from tests.rollout.plans import INCIDENT, NOW, journal, plan, table


@pytest.mark.parametrize("strategy", Strategy)
def test_what_is_written_is_read_back(tmp_path: Path, strategy: Strategy) -> None:
    starting = table(a=100) if strategy is Strategy.IN_PLACE else table(a=60, b=40)
    whole = journal(
        plan(starting, strategy=strategy),
        rejected=(Rejected("e" * 64, "bad"),),
        retired=(
            Retired("a", "10.0.0.1:8000", "id", Relaunch("/m", "chat", ("--x",)), {"uri": "s3://b"}, NOW),
        ),
        done=(Done(StepName.MOVE, 0, NOW, 1.5, "ok"),),
        bad=Bad(StepName.MOVE, 1, NOW, "no"),
        abort=AbortRequest(NOW, "ada", "ünï"),
        table=starting,
        moved_at=NOW,
        facts={"move 0": {"served": {"a": {"requests": 3}}}},
        events=(Event(NOW, "start", "started", {"weights": {"a": 100}}),),
    )  # fmt: skip
    folder = Incidents(tmp_path, "chat").folder(INCIDENT)
    kept = folder.write(whole, NOW)
    assert folder.read() == kept == replace(whole, revision=1, updated_at=NOW)
    assert folder.write(kept, NOW).revision == 2
    assert incident_folder(folder.path)[0].path == tmp_path / "incidents" / "chat"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    folder = IncidentFolder(tmp_path / "one")
    first = folder.write(journal(), NOW)
    folder.write(first, NOW)
    with pytest.raises(OutsideFailure, match="another process has written"):
        folder.write(first, NOW)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "holds no rollback"),
        ("", "cannot be read"),
        ("[]", "is no journal of schema"),
        ('{"schema": 99}', "is no journal of schema"),
        ('{"schema": 1}', "cannot be read"),
    ],
)
def test_what_is_no_journal_is_named(tmp_path: Path, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / "journal.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=told):
        IncidentFolder(tmp_path).read()


def test_the_first_abort_request_stands_and_a_broken_one_counts(tmp_path: Path) -> None:
    folder = IncidentFolder(tmp_path)
    assert folder.abort_request() is None
    first = folder.request_abort(AbortRequest(NOW, "ada", "no"))
    assert folder.request_abort(AbortRequest(NOW, "bob", "never")) == first
    (tmp_path / "abort.json").write_text("{", encoding="utf-8")
    broken = folder.abort_request()
    assert broken is not None and "cannot be read" in broken.reason


def test_only_one_at_a_time(tmp_path: Path) -> None:
    with Incidents(tmp_path, "chat").locked():
        with Incidents(tmp_path, "other").locked():
            pass
        with (
            pytest.raises(OutsideFailure, match="another process"),
            Incidents(tmp_path, "chat").locked(),
        ):
            pytest.fail("two at once")


def test_the_open_incident_is_found_and_broken_folders_are_passed_over(tmp_path: Path) -> None:
    incidents = Incidents(tmp_path, "chat")
    assert incidents.open() is None
    incidents.folder("one").write(journal(state="done"), NOW)
    (incidents.path / "broken").mkdir()
    (incidents.path / "broken" / "journal.json").write_text("{", encoding="utf-8")
    assert incidents.open() is None
    incidents.folder("two").write(journal(), NOW)
    found = incidents.open()
    assert found is not None and found[0].path.name == "two"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "..\\x"])
def test_names_cannot_leave_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        Incidents(tmp_path, name)
    with pytest.raises(BadInput):
        Incidents(tmp_path, "chat").folder(name)


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    folder = IncidentFolder(tmp_path)
    folder.write(journal(), NOW)
    data = json.loads((tmp_path / "journal.json").read_text(encoding="utf-8"))
    assert data["plan"]["starting"]["backends"][0]["weight"] == 60
