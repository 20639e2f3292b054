"""Old folders: what is ours, what is held, and that a removal that broke off is completed."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quality_lib.adapters.logs.old_objects import (
    is_evidence,
    is_exchange_log,
    objects_at,
    remove_objects,
)
from quality_lib.adapters.machine.old_folders import incident_folders, remove_folder, run_folders
from quality_lib.errors import BadInput, OutsideFailure
from tests.s3_server import s3, s3_url

__all__ = ["s3", "s3_url"]

OLD = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
LOG = "chat-host.1-20260301T000000Z-000001-n5.jsonl.gz"


def folder(path: Path, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in files:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text("{}")
        os.utime(path / name, (OLD, OLD))
    os.utime(path, (OLD, OLD))
    return path


@pytest.mark.parametrize(
    ("files", "is_held"),
    [
        (("run.json", "answers.parquet"), False),
        (("answers.jsonl",), False),
        (("part-1/plan.json",), False),
        (("thesis.docx",), True),
        ((), True),
    ],
)
def test_only_what_a_run_leaves_is_ours(
    tmp_path: Path, files: tuple[str, ...], is_held: bool
) -> None:
    folder(tmp_path / "chat" / "one", *files)
    (found,) = run_folders(tmp_path, {"chat": "chat"})
    assert bool(found.held_by) is is_held
    assert found.changed is not None


def test_the_newest_file_tells_the_age(tmp_path: Path) -> None:
    path = folder(tmp_path / "chat" / "one", "run.json")
    (found,) = run_folders(tmp_path, {"chat": "chat"})
    assert found.changed == datetime.fromtimestamp(OLD, tz=UTC)
    os.utime(path / "run.json", (OLD + 100, OLD + 100))
    (found,) = run_folders(tmp_path, {"chat": "chat"})
    assert found.changed == datetime.fromtimestamp(OLD + 100, tz=UTC)


def test_links_and_strange_places_are_left_alone(tmp_path: Path) -> None:
    elsewhere = folder(tmp_path / "elsewhere", "run.json")
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "link").symlink_to(elsewhere)
    assert list(run_folders(tmp_path, {"chat": "chat", "nobody": "nobody"})) == []


@pytest.mark.parametrize(
    ("journal", "held"),
    [
        ('{"state": "done"}', ""),
        ('{"state": "aborted"}', ""),
        ('{"state": "rolling"}', "its incident is not closed"),
        ('{"state": "open"}', "its incident is not closed"),
        ("{}", "its incident is not closed"),
        ("[]", "its journal cannot be read"),
        ('{"sta', "its journal cannot be read"),
        (None, "it holds no journal"),
    ],
)
def test_an_incident_that_is_not_closed_holds_its_folder(
    tmp_path: Path, journal: str | None, held: str
) -> None:
    path = folder(tmp_path / "incidents" / "chat" / "chat-1")
    if journal is not None:
        (path / "journal.json").write_text(journal)
    (found,) = incident_folders(tmp_path, "chat")
    assert found.held_by == held


def test_a_removal_that_broke_off_is_completed(tmp_path: Path) -> None:
    path = folder(tmp_path / "chat" / "one", "run.json", "deep/x")
    path.rename(path.with_name(".removing-one"))
    (found,) = run_folders(tmp_path, {"chat": "chat"})
    assert found.held_by == ""
    remove_folder(found.path)
    remove_folder(found.path)
    assert list((tmp_path / "chat").iterdir()) == []


def test_a_folder_is_removed_with_all_in_it(tmp_path: Path) -> None:
    path = folder(tmp_path / "chat" / "one", "run.json", "deep/x")
    remove_folder(path)
    assert list((tmp_path / "chat").iterdir()) == []


@pytest.mark.parametrize(
    ("key", "is_log", "is_kept"),
    [
        (f"chat/dt=2026-03-01/hour=00/{LOG}", True, False),
        (f"chat/{LOG.removesuffix('.gz')}", True, False),
        ("chat/chat-host.1-20260301T000000Z-000001.jsonl.open", False, False),
        ("chat/notes.jsonl.gz", False, False),
        ("chat/chat-1/evidence-abc.tar.gz", False, True),
        ("chat/chat-1/evidence-abc.core", False, False),
    ],
)
def test_which_objects_are_ours(key: str, is_log: bool, is_kept: bool) -> None:
    assert (is_exchange_log(key), is_evidence(key)) == (is_log, is_kept)


def test_objects_in_a_folder(tmp_path: Path) -> None:
    path = folder(tmp_path / "chat" / "i-1", "evidence-a.tar.gz", "other.txt")
    ((address, found),) = objects_at(str(tmp_path), "chat/", is_evidence)
    assert (address, found.key) == (str(path / "evidence-a.tar.gz"), "chat/i-1/evidence-a.tar.gz")
    remove_objects([address, address])
    assert list(objects_at(str(tmp_path), "chat/", is_evidence)) == []
    assert (path / "other.txt").exists()
    assert list(objects_at(str(tmp_path / "nowhere"), "chat/", is_evidence)) == []


@pytest.mark.parametrize("address", ["s3://bucket", "s3://bucket/", "s3:///key"])
def test_an_address_without_an_object_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match="names no object"):
        remove_objects([address])


@pytest.mark.stack
def test_objects_in_a_bucket(s3: Any) -> None:
    s3.create_bucket(Bucket="old-objects")
    for key in (f"logs/chat/dt=2026-03-01/{LOG}", "logs/chat/notes.txt", f"logs/other/{LOG}"):
        s3.put_object(Bucket="old-objects", Key=key, Body=json.dumps({}).encode())
    ((address, _),) = objects_at("s3://old-objects/logs", "chat/", is_exchange_log)
    assert address == f"s3://old-objects/logs/chat/dt=2026-03-01/{LOG}"
    remove_objects([address, address])
    assert list(objects_at("s3://old-objects/logs", "chat/", is_exchange_log)) == []
    left = [one["Key"] for one in s3.list_objects_v2(Bucket="old-objects")["Contents"]]
    assert sorted(left) == ["logs/chat/notes.txt", f"logs/other/{LOG}"]
    with pytest.raises(OutsideFailure, match="NoSuchBucket"):
        remove_objects(["s3://there-is-none-such/x"])
